"""The configuration of the reverse proxy that we ship: TLS, uploads, streams, tiles and links through a real nginx."""

import hashlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.access import Scope
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.pages import ROOT
from tests.support.server import free_port
from tests.support.serving import add_item, file_of, make_key, serve_api, write_rasters
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="apt-get install nginx-light"),
]

NAME = "data.example.org"
CONFIGURATION = ROOT / "deploy" / "proxy" / "anabranch.conf"
AROUND = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/anabranch.conf;
}}
"""


def write_certificate(folder: Path) -> None:
    """A self-signed certificate, as an installation without an authority has it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.OID_COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))


def change_places(text: str, changes: dict[str, str]) -> str:
    """The configuration with what an installation changes; each must be in it."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ab-proxy-"))
    made.chmod(0o711)
    write_certificate(made)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def database(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str, folder: Path) -> str:
    made = Databases(postgres, postgres_admin).make(catalog_template)
    for raster in write_rasters(folder / "home" / "silver"):
        add_item(made, raster)
    return made


@pytest.fixture(scope="module")
def ports(database: str, folder: Path) -> Iterator[tuple[int, int]]:
    """The ports of TLS and of plain HTTP of the proxy before an API."""
    with serve_api(
        database, folder / "home", auth="keys", public_url=f"https://{NAME}", trusted_proxies="127.0.0.1"
    ) as api:
        tls, plain = free_port(), free_port()
        changes = {
            "server 127.0.0.1:8787;": f"server {api.url.removeprefix('http://')};",
            "listen 443 ssl": f"listen 127.0.0.1:{tls} ssl",
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "/etc/anabranch": str(folder),
        }
        (folder / "anabranch.conf").write_text(change_places(CONFIGURATION.read_text(), changes))
        (folder / "nginx.conf").write_text(AROUND.format(folder=folder))
        for place in ("body", "proxy", "fastcgi", "uwsgi", "scgi"):
            (folder / place).mkdir(mode=0o777)
        nginx = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
        checked = subprocess.run([*nginx, "-t"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        with subprocess.Popen(nginx) as process:
            try:
                wait_until(lambda: process.poll() is not None or listens(tls), "nginx listening")
                yield tls, plain
            finally:
                process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def client(ports: tuple[int, int], folder: Path, database: str) -> Iterator[httpx.Client]:
    """It knows the certificate, and reaches the proxy by its public name."""
    context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    headers = {"Host": NAME, "Authorization": f"Bearer {make_key(database, Scope.ADMIN)}"}
    with httpx.Client(
        base_url=f"https://127.0.0.1:{ports[0]}", verify=context, headers=headers, timeout=PATIENCE_SECONDS,
        event_hooks={"request": [lambda request: request.extensions.update(sni_hostname=NAME)]},
    ) as made:  # fmt: skip
        yield made


def test_plain_http_leads_to_tls(ports: tuple[int, int]) -> None:
    answer = httpx.get(f"http://127.0.0.1:{ports[1]}/stac?limit=1", headers={"Host": NAME})
    assert (answer.status_code, answer.headers["Location"]) == (308, f"https://{NAME}/stac?limit=1")


def test_the_api_gets_an_upload_as_it_arrives(client: httpx.Client, folder: Path) -> None:
    half = os.urandom(1 << 20) * 20

    def send() -> Iterator[bytes]:
        yield half
        incoming = folder / "home" / "bronze" / ".incoming"
        wait_until(lambda: any(file.stat().st_size for file in incoming.rglob("*") if file.is_file()), "the first half")
        yield half

    headers = {"Content-Type": "application/octet-stream"}
    answer = client.post("/api/uploads", params={"name": "large.bin"}, content=send(), headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.json()["sha256"] == hashlib.sha256(half + half).hexdigest()


def test_events_arrive_while_the_job_runs(client: httpx.Client) -> None:
    job = client.post("/api/jobs/submit/hello_world", json={"n": 1}).json()["job_id"]
    with client.stream("GET", f"/api/jobs/{job}/stream") as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith("event:"))
        assert client.post(f"/api/jobs/{job}/cancel").is_success
        assert "cancelled" in "\n".join(lines)


def test_tiles_files_and_links_are_those_of_the_public_name(client: httpx.Client) -> None:
    tile = client.get("/raster/collections/scenes/items/hills/tiles/WebMercatorQuad/8/134/90.png")
    assert (tile.status_code, tile.headers["Content-Type"]) == (200, "image/png")
    part = client.get(file_of("hills"), headers={"Range": "bytes=0-3"})
    assert (part.status_code, len(part.content)) == (206, 4)
    item = client.get("/stac/collections/scenes/items/hills", headers={"X-Forwarded-Host": "evil.example.org"})
    assert set(re.findall(r"https?://[\w.:-]+", str(item.json()["links"]))) == {f"https://{NAME}"}
    assert item.headers["Strict-Transport-Security"]


def test_metrics_stay_inside(client: httpx.Client) -> None:
    assert client.get("/metrics").status_code == 404
