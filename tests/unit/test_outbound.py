"""Calls to addresses of callers (S3): only public ones, whatever form hides another."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from anabranch.errors import InputError, Unavailable
from anabranch.outbound.addresses import is_internal, is_public
from anabranch.outbound.post import post
from anabranch.outbound.url import read_exempt, read_url
from tests.support.receiver import answering, open_receiver


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "168.63.129.16", "192.0.0.192", "192.88.99.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
        *("64:ff9b:1::1", "2002:7f00:1::", "2002:a83f:8110::1", "2001:0:7f00:1::", "::ffff:168.63.129.16"),
    ],
)
def test_s3_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"]
)
def test_public_addresses_are_called(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/", "file:///etc/passwd", "example.org", "https://", "https:///x", "javascript:alert(1)"),
        *("https://user@example.org/", "https://user:word@example.org/", "https://example.org/#part"),
        *(
            "https://exa mple.org/",
            "https://example.org/\r\nX: y",
            "https://example.org\\@10.0.0.1/",
            "https://ex%00.org/",
        ),
        *("http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://a.localhost/", "http://127.1/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://[::ffff:10.0.0.1]/"),
        *("http://169.254.169.254/latest/meta-data/", "http://127.0.0.1./", "https://example.org:8443/"),
        *(
            "https://example.org:99999/",
            "https://[::1",
            f"https://example.org/{'x' * 2000}",
            "https://b\u00fccher.example/",
            "https://example.org:0/",
            "http://[2606:4700:4700::1111%25eth0]/",
        ),
    ],
)
def test_s3_urls_that_are_refused_at_once(url: str) -> None:
    with pytest.raises(InputError) as refused:
        read_url(url)
    assert refused.value.code == "outbound.url"
    assert "user:word" not in refused.value.message


def test_urls_are_read_in_one_way() -> None:
    target = read_url("https://Example.ORG./hook?a=b")
    assert (target.host, target.port, target.path, target.host_header) == (
        "example.org",
        443,
        "/hook?a=b",
        "example.org",
    )
    assert read_url("http://example.org:443").authority == "http://example.org:443"


@pytest.mark.parametrize(
    ("url", "helps"),
    [
        ("http://10.0.0.1/", True), ("https://example.org:8443/", True), ("http://localhost/", True),
        ("http://169.254.169.254/", False), ("ftp://example.org/", False), ("http://a@example.org/", False),
        ("http://example.org/#a", False), ("http://exa mple.org/", False),
    ],
)  # fmt: skip
def test_o6_a_setting_is_named_only_where_it_helps(url: str, helps: bool) -> None:
    with pytest.raises(InputError) as refused:
        read_url(url)
    assert ("ANABRANCH_CALLBACK_HOSTS" in refused.value.remedy) == helps


def test_exempt_hosts_may_be_private_and_have_any_port() -> None:
    assert read_url("http://127.0.0.1:9000/x", ["127.0.0.1"]).exempt
    assert read_url("http://hooks.lan:9000/", ["hooks.lan:9000"]).host_header == "hooks.lan:9000"
    with pytest.raises(InputError):
        read_url("http://hooks.lan:9001/", ["hooks.lan:9000"])
    assert [read_exempt(text) for text in ("Hooks.Lan", "hooks.lan:80", "[::1]:80", "::1")] == [
        "hooks.lan",
        "hooks.lan:80",
        "[::1]:80",
        "::1",
    ]
    assert read_exempt("hooks.lan.") == "hooks.lan"
    for text in ("169.254.169.254", "169.254.169.254:80", "[fe80::1]:80", "0xa9fea9fe"):
        with pytest.raises(ValueError, match="never called"):
            read_exempt(text)
    for text in ("http://hooks.lan", "hooks.lan:0", "fe80::1%eth0"):
        with pytest.raises(ValueError, match="not a host"):
            read_exempt(text)


@pytest.mark.parametrize("url", ["http://hooks.lan:0/", "http://169.254.169.254/", "http://[::1%25lo]/"])
def test_s3_exempt_hosts_have_a_port_and_no_zone_and_are_not_those_of_metadata(url: str) -> None:
    with pytest.raises(InputError):
        read_url(url, ["hooks.lan", "hooks.lan:0", "hooks.lan:80", "169.254.169.254", "::1%25lo", "::1%lo", "::1"])


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
        *("fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a83f:8110::1"),
    ],
)
async def test_s3_a_name_that_is_exempt_must_not_lead_to_metadata(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_internal(address)
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, port, **__: [(0, 0, 0, "", (host, port)) for host in ("10.0.0.1", address)]
    )
    with pytest.raises(Unavailable) as refused:
        await post(read_url("http://hooks.lan/", ["hooks.lan"]), {}, b"", seconds=60)
    assert refused.value.code == "outbound.address"


async def test_an_address_that_hangs_leaves_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_receiver() as receiver:
        with socket.create_server(("127.0.0.2", receiver.port), backlog=0) as deaf, socket.socket() as first:
            first.connect(deaf.getsockname())  # nobody accepts it, so the next one waits
            addresses = ["127.0.0.2", "127.0.0.2", "127.0.0.1"]
            monkeypatch.setattr("anabranch.outbound.post._look_up", lambda *_: addresses)
            monkeypatch.setattr("anabranch.outbound.post.MAX_CONNECT_SECONDS", 0.2)
            target = read_url(f"http://hooks.lan:{receiver.port}/", ["hooks.lan"])
            assert (await post(target, {}, b"", seconds=60)).status == 200


async def test_s3_a_name_is_checked_by_every_address_and_called_at_the_checked_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(Unavailable) as refused:
        await post(read_url("https://example.org/"), {}, b"", seconds=5)
    assert (refused.value.code, asked) == ("outbound.address", ["example.org"])


async def test_s3_a_rebound_name_is_not_resolved_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_receiver() as receiver:
        answers = iter([[(0, 0, 0, "", ("127.0.0.1", receiver.port))]])
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: next(answers))
        target = read_url(f"http://hooks.lan:{receiver.port}/", ["hooks.lan"])
        answered = await post(target, {}, b"body", seconds=60)
    assert answered.status == 200
    assert receiver.requests[0].headers["host"] == f"hooks.lan:{receiver.port}"


def _certify(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(pem))
    server.load_cert_chain(pem)
    return server, client


async def test_s3_tls_is_that_of_the_name_though_the_address_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = _certify(tmp_path, "hooks.example")
    names: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: names.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.1", port))])
    right, wrong = (read_url(f"https://{name}:{port}/", [name]) for name in ("hooks.example", "other.example"))
    assert (await post(right, {}, b"", seconds=60, context=client)).status == 204
    with pytest.raises(Unavailable, match="certificate"):
        await post(wrong, {}, b"", seconds=60, context=client)
    assert names == ["hooks.example", "other.example"]
    listening.close()


async def test_an_answer_is_read_to_its_limit() -> None:
    async with open_receiver(answering(200, body=b"x" * 1_000_000)) as receiver:
        answered = await post(read_url(receiver.url(), ["127.0.0.1"]), {}, b"", seconds=60)
    assert len(answered.body) == 16 * 1024
