"""Signed manifests: what they say, and that a change of any part is found."""

import base64
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.canonical import JsonObject
from anabranch.errors import AnabranchError
from anabranch.manifests.envelope import open_envelope, read_envelope, sign, write_envelope
from anabranch.manifests.signing_key import SigningKey, id_of, read_public_key
from anabranch.manifests.statement import Origin, Statement, build_statement


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.open(tmp_path / "key.pem")


@pytest.fixture
def statement() -> Statement:
    origin = Origin(
        job_id="5e" * 32,
        workflow="process_raster",
        workflow_hash="ab" * 32,
        parameters={"source": "bronze://dem.tif", "ü": 1},
        handlers={"raster.create_cog": ["2", "1.4.0"]},
    )
    published_as: JsonObject = {"collection": "scenes", "item": "dem"}
    return build_statement(origin, published_as, {"dem.tif": "cd" * 32}, {"dem.tif": "ef" * 32}, {"gdal": "3.10"})


def test_a_manifest_is_an_in_toto_statement_with_slsa_provenance(key: SigningKey, statement: Statement) -> None:
    envelope = sign(statement, key)
    payload = json.loads(base64.b64decode(envelope.payload))
    assert payload["_type"] == "https://in-toto.io/Statement/v1"
    assert payload["predicateType"] == "https://slsa.dev/provenance/v1"
    assert payload["subject"] == [{"name": "dem.tif", "digest": {"sha256": "cd" * 32}}]
    build, run = payload["predicate"]["buildDefinition"], payload["predicate"]["runDetails"]
    assert build["externalParameters"] == {
        "workflow": "process_raster",
        "parameters": {"source": "bronze://dem.tif", "ü": 1},
    }
    assert [one["name"] for one in build["resolvedDependencies"]] == ["dem.tif", "workflow:process_raster"]
    assert run["builder"]["version"] == {"raster.create_cog": "1.4.0, 2", "gdal": "3.10"}
    assert run["metadata"] == {"invocationId": "5e" * 32}


def test_the_signature_is_the_one_of_the_dsse_protocol(key: SigningKey, statement: Statement) -> None:
    envelope = sign(statement, key)
    payload = base64.b64decode(envelope.payload)
    encoded = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
    read_public_key(key.public_key).verify(base64.b64decode(envelope.signatures[0].sig), encoded)


def test_what_was_signed_is_read_back(key: SigningKey, statement: Statement) -> None:
    text = write_envelope(sign(statement, key))
    assert open_envelope(read_envelope(text), [key.public_key]) == (statement, key.id)
    assert key.id == id_of(key.public_key)


def test_any_change_is_found(key: SigningKey, statement: Statement, tmp_path: Path) -> None:
    envelope = sign(statement, key)
    other = SigningKey.open(tmp_path / "other.pem")
    forged = sign(statement, other)
    renamed = replace(forged, signatures=(replace(forged.signatures[0], keyid=key.id),))
    changed = replace(envelope, payload=base64.b64encode(b"{}").decode())
    for refused, code in (
        (forged, "manifest.unknown_key"),
        (renamed, "manifest.signature"),
        (changed, "manifest.signature"),
        (replace(envelope, signatures=()), "manifest.unknown_key"),
        (replace(envelope, payload="not base64!"), "manifest.unreadable"),
    ):
        with pytest.raises(AnabranchError) as raised:
            open_envelope(refused, [key.public_key])
        assert raised.value.code == code
    both = replace(envelope, signatures=(renamed.signatures[0], *envelope.signatures))
    assert open_envelope(both, [key.public_key]) == (statement, key.id)


@pytest.mark.parametrize("text", ["", "[]", "1", "{}", '{"payload": 1}', '{"payload": "", "signatures": [1]}'])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(AnabranchError, match="not a manifest"):
        read_envelope(text)


def test_large_parameters_are_named_by_their_hash_and_secrets_are_hidden() -> None:
    def build(parameters: JsonObject) -> Statement:
        return build_statement(Origin("5e" * 32, "w", "ab" * 32, parameters=parameters), {}, {}, {}, {})

    large = build({"items": ["x" * 9_000]}).predicate.build_definition
    assert large.external_parameters == {"workflow": "w"}
    assert "parameters" in [one.name for one in large.resolved_dependencies]
    small = build({"source": "https://user:hunter2@example.org/a.tif"}).predicate.build_definition
    assert "hunter2" not in str(small.external_parameters)


def test_the_first_of_many_makes_the_key_and_only_its_user_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "home" / "key.pem"
    with ThreadPoolExecutor(8) as threads:
        ids = {key.id for key in threads.map(lambda _: SigningKey.open(file), range(16))}
    assert len(ids) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert SigningKey.replace(file).id not in ids
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_key_that_can_not_be_used_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    with pytest.raises(AnabranchError, match=r"key\.pem") as raised:
        SigningKey.open(file)
    assert raised.value.code == "signing_key.unusable"
    with pytest.raises(AnabranchError) as raised:
        id_of("nonsense")
    assert raised.value.code == "manifest.key"
