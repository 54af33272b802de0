"""A PostgreSQL that listens on loopback with TLS, whose certificate an authority of the test's own signed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from psycopg import sql

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.embedded.server_user import choose_server_user
from tests.support.server import free_port

__all__ = ["TlsServer", "open_tls_server", "sign_client"]


class TlsServer(Cluster):
    """A server on 127.0.0.1 that asks for passwords there."""

    def __init__(self, folder: Path) -> None:
        """Not started; what its clients need is in the folder."""
        self.port = free_port()
        self.authority = folder / "authority.crt"
        self.other_authority = folder / "other.crt"
        self._certificate, self._key = folder / "tls" / "server.crt", folder / "tls" / "server.key"
        self._certificate.parent.mkdir()
        key = _sign(self.authority, self._certificate)
        _sign(self.other_authority, folder / "none.crt")
        self._key.write_bytes(key)
        self._key.chmod(0o600)
        super().__init__(Home(folder / "home"), durable=False, state=folder / "state")
        user = choose_server_user(folder / "none")
        for path in (self._certificate, self._key, self._key.parent):
            if user.uid is not None and user.gid is not None:
                os.chown(path, user.uid, user.gid)

    def url(self, database: str = "anabranch") -> str:
        """The URL of a database, by the socket, where no password is asked for."""
        return f"postgresql://postgres@{quote(str(self._layout.socket), safe='')}:{self.port}/{database}"

    def tcp_url(self, user: str, host: str = "localhost", **parameters: object) -> str:
        """The URL by TLS, without a password."""
        query = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items())
        return f"postgresql://{user}@{host}:{self.port}/anabranch?{query}"

    def change_password(self, user: str, password: str) -> None:
        """Give a user another password."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(user), password))

    def run(self, statements: str) -> None:
        """As the administrator."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statements.encode())

    def _fixed(self) -> dict[str, str]:
        tls = {"ssl": "on", "ssl_cert_file": str(self._certificate), "ssl_key_file": str(self._key)}
        return {**super()._fixed(), "listen_addresses": "127.0.0.1", "port": str(self.port), **tls}


@contextmanager
def open_tls_server() -> Iterator[TlsServer]:
    """A running one, migrated."""
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    server = TlsServer(folder)
    try:
        server.start()
        server.ensure_database()
        migrate(server.url())
        yield server
    finally:
        server.purge()
        server.home.release()
        rmtree(folder)


def sign_client(key: ec.EllipticCurvePrivateKey, file: Path) -> Path:
    """Write a certificate of a client, which nobody needs to know."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
    signed = made.not_valid_after(now + timedelta(days=2)).sign(key, hashes.SHA256())
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return file


def _sign(authority: Path, certificate: Path) -> bytes:
    """Write an authority and a certificate of it for localhost; its key."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {authority.stem}")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    now = datetime.now(UTC)

    def build(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(public)
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))

    rooted = build(issuer, root.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    signed = build(subject, key.public_key()).add_extension(names, critical=False)
    for file, made in ((authority, rooted), (certificate, signed)):
        file.write_bytes(made.sign(root, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
