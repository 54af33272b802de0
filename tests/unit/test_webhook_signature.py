"""Signatures of webhooks, by the standard."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from anabranch.client import verify_webhook
from anabranch.errors import InputError, Unavailable
from anabranch.sealing import Sealer
from anabranch.webhook_signature import make_secret, read_secret, sign

# The example of the standard's own libraries.
KNOWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def _headers(secret: str, *, at: int | None = None) -> dict[str, str]:
    stamp = int(time.time()) if at is None else at
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(stamp),
        "Webhook-Signature": f"v1,AAAA {sign(secret, 'msg_1', stamp, BODY)}",
    }


def test_signatures_are_those_of_the_standard() -> None:
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(KNOWN, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY) == expected


def test_a_signed_webhook_is_verified_by_one_of_the_secrets() -> None:
    assert verify_webhook(BODY, _headers(KNOWN), ["another secret of mine", KNOWN]) == {"test": 2432232314}
    assert verify_webhook(BODY.decode(), _headers("a plain text secret"), "a plain text secret")


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (BODY + b" ", _headers(KNOWN)),
        (BODY, _headers("another secret of mine")),
        (BODY, _headers(KNOWN, at=int(time.time()) - 3600)),
        (BODY, _headers(KNOWN, at=int(time.time()) + 86400)),
        (BODY, {}),
        (BODY, {**_headers(KNOWN), "Webhook-Timestamp": "now"}),
        (BODY, {**_headers(KNOWN), "Webhook-Signature": "v1,\u00e9"}),
    ],
)
def test_what_was_not_signed_with_the_secret_now_is_refused(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(InputError) as refused:
        verify_webhook(body, headers, KNOWN)
    assert refused.value.code == "webhook.signature"


def test_new_secrets_have_256_bits() -> None:
    assert len(read_secret(make_secret())) == 32
    with pytest.raises(InputError):
        read_secret("whsec_???")


def test_s5_a_sealed_secret_is_opened_only_with_its_key_and_for_its_endpoint(tmp_path: Path) -> None:
    endpoint, file = uuid4(), tmp_path / "home" / "webhook-key"
    sealed = Sealer.open(file).seal(endpoint, KNOWN)
    assert file.stat().st_mode & 0o777 == 0o600
    assert KNOWN.encode() not in sealed
    assert Sealer.open(file).unseal(endpoint, sealed) == KNOWN
    for sealer, given in ((Sealer.open(tmp_path / "other"), endpoint), (Sealer.open(file), uuid4())):
        with pytest.raises(Unavailable):
            sealer.unseal(given, sealed)


def test_a_key_file_that_is_broken_is_named(tmp_path: Path) -> None:
    (tmp_path / "webhook-key").write_text("short")
    with pytest.raises(Unavailable, match="can't be used"):
        Sealer.open(tmp_path / "webhook-key")
