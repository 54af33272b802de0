"""The key that signs manifests: a file of the home."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError, Unavailable
from anabranch.key_file import make_key_file, replace_key_file

if TYPE_CHECKING:  # imported where a key is used: few processes do
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["FILE_NAME", "SigningKey", "id_of", "read_public_key"]

FILE_NAME = "signing-key.pem"
ID_DIGITS = 16


class SigningKey:
    """An Ed25519 key; `id` is taken from its public half, which anyone may have."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        """Use `open`, which reads or makes the file."""
        self._private = private
        self.public_key = _write_public_key(private.public_key())
        self.id = id_of(self.public_key)

    @classmethod
    def open(cls, file: Path) -> "SigningKey":
        """The key of a file; the first process that needs one makes it."""
        try:
            return cls._read(file)
        except FileNotFoundError:
            pass
        try:
            make_key_file(file, _make_private_key)
            return cls._read(file)
        except OSError as error:
            raise Unavailable(
                "signing_key.unusable",
                f"the signing key {file} can't be made: {error.strerror}",
                remedy="Let the user of the workers write there, or set ANABRANCH_SIGNING_KEY.",
            ) from error

    @classmethod
    def replace(cls, file: Path) -> "SigningKey":
        """Put a new key in the place of the one in the file."""
        replace_key_file(file, _make_private_key)
        return cls._read(file)

    @classmethod
    def _read(cls, file: Path) -> "SigningKey":
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(file.read_bytes(), password=None)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _unusable(file, str(error)) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise _unusable(file, "it is not an Ed25519 key")
        return cls(private)

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._private.sign(message)


def read_public_key(text: str) -> "Ed25519PublicKey":
    """The public key of a PEM text."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError("manifest.key", f"a public key can't be read: {error}") from error
    if not isinstance(found, Ed25519PublicKey):
        raise InputError("manifest.key", "a public key is not an Ed25519 key")
    return found


def id_of(public_key: str) -> str:
    """The id of a public key: the beginning of the SHA-256 of its DER form."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = read_public_key(public_key).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).hexdigest()[:ID_DIGITS]


def _write_public_key(public: "Ed25519PublicKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _make_private_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _unusable(file: Path, reason: str) -> Unavailable:
    return Unavailable(
        "signing_key.unusable",
        f"the signing key {file} can't be used: {reason}",
        remedy="Put a PEM file with an Ed25519 private key there, or remove it to have one made.",
    )
