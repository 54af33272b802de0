"""Tokens of an OpenID Connect issuer: which are accepted, and how its keys are fetched (S1, S5, S7, P7)."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import RSAKey
from pydantic import ValidationError

from anabranch.access import NotAuthenticated, Principal, Scope
from anabranch.errors import AnabranchError, Unavailable
from anabranch.oidc.issuer import FRESH_SECONDS, MAX_STALE_SECONDS, RETRY_SECONDS, fetch_keys
from anabranch.oidc.settings import OidcSettings
from anabranch.oidc.tokens import MAX_TOKEN_CHARACTERS, Tokens
from anabranch.settings import Settings, load_settings
from tests.support.issuer import AUDIENCE, LocalIssuer, make_signing_key, open_issuer, sign, sign_by_secret
from tests.support.pages import read_blocks
from tests.support.receiver import answering
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    async with open_issuer() as opened:
        yield opened


class Clock:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def tokens_of(issuer: LocalIssuer, clock: Clock | None = None, **settings: Any) -> Tokens:
    return Tokens(OidcSettings(**{**issuer.settings, **settings}), now=clock or Clock())


async def refused(tokens: Tokens, token: str) -> AnabranchError:
    with pytest.raises(AnabranchError) as caught:
        await tokens.authenticate(token)
    assert token not in repr(caught.value)
    return caught.value


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_s1_a_token_of_the_issuer_is_accepted(issuer: LocalIssuer, algorithm: str) -> None:
    issuer.keys["own"] = make_signing_key(algorithm)
    token = issuer.sign(kid="own", algorithm=algorithm)
    assert await tokens_of(issuer).authenticate(token) == Principal(
        "default/ann", "default", Scope.READ, issuer=issuer.url
    )


async def test_p7_who_acts_is_the_subject_and_the_issuer_of_the_token(issuer: LocalIssuer) -> None:
    principal = await tokens_of(issuer).authenticate(issuer.sign(preferred_username="bob", name="Bob"))
    assert principal
    assert principal.actor == f"default/ann ({issuer.url})"


@pytest.mark.parametrize(
    ("changes", "code", "claim"),
    [
        ({"exp": 1_000_000_000}, "auth.expired", "expired"),
        ({"exp": None}, "auth.token", "exp"),
        ({"sub": None}, "auth.token", "sub"),
        ({"sub": 5}, "auth.token", "sub"),
        ({"sub": "a\nb"}, "auth.token", "sub"),
        ({"sub": " "}, "auth.token", "sub"),
        ({"sub": "x" * 256}, "auth.token", "sub"),
        ({"aud": None}, "auth.token", "aud"),
        ({"aud": "api://other"}, "auth.token", "aud"),
        ({"aud": ["api://other", "account"]}, "auth.token", "aud"),
        ({"iss": None}, "auth.token", "iss"),
        ({"iss": "https://other.example/realms/maps"}, "auth.token", "iss"),
        ({"nbf": 4_000_000_000}, "auth.token", "nbf"),
        ({"iat": 4_000_000_000}, "auth.token", "iat"),
    ],
)
async def test_s1_a_token_with_a_wrong_claim_is_refused_and_the_claim_is_named(
    issuer: LocalIssuer, changes: dict[str, Any], code: str, claim: str
) -> None:
    error = await refused(tokens_of(issuer), issuer.sign(**changes))
    assert isinstance(error, NotAuthenticated)
    assert (error.code, claim in error.message) == (code, True), error.message


async def test_one_of_several_audiences_is_enough(issuer: LocalIssuer) -> None:
    tokens = tokens_of(issuer, audience="api://one, api://two")
    assert await tokens.authenticate(issuer.sign(aud=["account", "api://two"]))


async def test_the_leeway_is_for_clocks_that_differ(issuer: LocalIssuer) -> None:
    token = issuer.sign(exp=int(time.time()) - 60)
    assert await tokens_of(issuer, leeway_seconds=120).authenticate(token)
    assert (await refused(tokens_of(issuer, leeway_seconds=0), token)).code == "auth.expired"


async def test_s1_forged_tokens_are_none_of_the_issuer(issuer: LocalIssuer) -> None:
    """Unsigned, signed by others, or by the public key as if it were a shared secret: nothing says which it was."""
    own, claims = make_signing_key(), issuer.claims(roles=["anabranch.admin"])
    good = issuer.sign()
    head, body, signature = good.split(".")
    assert isinstance(own, RSAKey)
    pem = own.as_pem(private=False)
    forged = [
        sign(claims, make_signing_key(number=1), kid="first"),
        sign(claims, make_signing_key(number=1), kid="first", jwk=make_signing_key(number=1).as_dict(private=False)),
        sign(claims, make_signing_key(number=1), kid="first", jku="http://127.0.0.1:9/keys"),
        *(sign_by_secret(claims, secret, kid="first") for secret in (pem, pem.strip(), own.as_der(private=False))),
        f"{encode({'alg': 'none', 'kid': 'first'})}.{encode(claims)}.",
        f"{encode({'alg': 'none', 'kid': 'first'})}.{encode(claims)}.{signature}",
        f"{encode({'alg': 'None', 'kid': 'first'})}.{encode(claims)}.{signature}",
        f"{encode({'kid': 'first'})}.{encode(claims)}.{signature}",
        f"{encode({'alg': ['RS256'], 'kid': 'first'})}.{encode(claims)}.{signature}",
        f"{head}.{encode(claims)}.{signature}",
        f"{head}.{body}.{signature[:-8]}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{good}.{signature}",
        f"{good}=",
        sign(claims, own),  # without the id of a key
        sign(claims, own, kid=["first"]),
        sign(claims, own, kid="first", typ="logout+jwt"),
        sign(claims, own, kid="first", crit=["exp"]),
        sign(b"[1]", own, kid="first"),
        sign(b'{"a":', own, kid="first"),
        "eyJ" + "A" * 40,
        "",
        "anb_",
    ]
    tokens = tokens_of(issuer)
    assert await tokens.authenticate(good)
    assert [await tokens.authenticate(token) for token in forged] == [None] * len(forged)


async def test_s1_an_algorithm_that_is_not_allowed_is_refused(issuer: LocalIssuer) -> None:
    assert await tokens_of(issuer, algorithms="ES256,PS256").authenticate(issuer.sign()) is None


async def test_s1_a_key_is_used_for_its_own_algorithm_and_for_signatures_only(issuer: LocalIssuer) -> None:
    issuer.keys["other"] = make_signing_key("ES256")
    for described in ({"alg": "PS256"}, {"use": "enc"}, {"alg": "RSA-OAEP"}, {"kid": None}, {"n": "AQAB"}):
        issuer.described["first"] = described
        assert await tokens_of(issuer).authenticate(issuer.sign()) is None


async def test_s1_short_keys_of_the_issuer_are_not_used(issuer: LocalIssuer) -> None:
    short = rsa.generate_private_key(65537, 1024)
    issuer.keys["short"] = RSAKey(short, short)
    assert await tokens_of(issuer).authenticate(issuer.sign(kid="short")) is None


async def test_s7_a_token_that_is_too_long_or_deep_is_refused_before_it_is_read(issuer: LocalIssuer) -> None:
    tokens = tokens_of(issuer)
    assert await tokens.authenticate(issuer.sign(groups=["x" * MAX_TOKEN_CHARACTERS])) is None
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 4000).decode().rstrip("=")
    assert await tokens.authenticate(f"{deep}.eyJhIjoxfQ.{'A' * 342}") is None
    assert issuer.asked == 0


@pytest.mark.parametrize(
    ("claims", "scope"),
    [
        ({"roles": ["anabranch.read", "anabranch.operate", "other"]}, Scope.OPERATE),  # app roles of Entra ID
        ({"roles": None, "scp": "openid anabranch.submit"}, Scope.SUBMIT),  # delegated scopes of Entra ID
        ({"roles": None, "scope": "profile anabranch.admin"}, Scope.ADMIN),
        ({"roles": None, "realm_access": {"roles": ["offline_access", "anabranch.submit"]}}, Scope.SUBMIT),  # Keycloak
    ],
)
async def test_the_highest_scope_of_the_claims_is_the_caller_s(
    issuer: LocalIssuer, claims: dict[str, Any], scope: Scope
) -> None:
    principal = await tokens_of(issuer).authenticate(issuer.sign(**claims))
    assert principal
    assert principal.scope is scope


async def test_scopes_are_mapped_as_the_operator_says(issuer: LocalIssuer) -> None:
    tokens = tokens_of(
        issuer,
        scope_claims="resource_access.anabranch.roles,https://maps.example/groups",
        scopes="CN=gis=submit,ops=admin",
    )
    for claims, scope in (
        ({"resource_access": {"anabranch": {"roles": ["CN=gis"]}}}, Scope.SUBMIT),
        ({"https://maps.example/groups": ["ops"]}, Scope.ADMIN),
    ):
        principal = await tokens.authenticate(issuer.sign(**claims))
        assert principal
        assert principal.scope is scope
    assert (await refused(tokens, issuer.sign())).code == "auth.unmapped"


@pytest.mark.parametrize(
    "claims", [{"roles": None}, {"roles": []}, {"roles": ["admin", "Anabranch.read"]}, {"roles": {"anabranch.read": 1}}]
)
async def test_s1_a_token_without_a_mapped_scope_is_refused_and_the_claims_are_named(
    issuer: LocalIssuer, claims: dict[str, Any]
) -> None:
    error = await refused(tokens_of(issuer), issuer.sign(**claims))
    assert (error.code, "roles, scp, scope, realm_access.roles" in error.message) == ("auth.unmapped", True)


async def test_the_platform_is_that_of_the_claim(issuer: LocalIssuer) -> None:
    own = tokens_of(issuer, platform_claim="tenant")
    mapped = tokens_of(issuer, platform_claim="groups", platforms="4f1c=acme,9d2e=other")
    for tokens, claims, platform in (
        (own, {"tenant": "acme"}, "acme"),
        (mapped, {"groups": ["0000", "9d2e"]}, "other"),
    ):
        principal = await tokens.authenticate(issuer.sign(**claims))
        assert principal
        assert (principal.platform, principal.name) == (platform, f"{platform}/ann")


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({}, "groups"),
        ({"groups": ["acme"]}, "groups"),
        ({"groups": ["4f1c", "9d2e"]}, "several"),
    ],
)
async def test_s1_a_token_of_no_or_of_several_platforms_is_refused(
    issuer: LocalIssuer, claims: dict[str, Any], said: str
) -> None:
    tokens = tokens_of(issuer, platform_claim="groups", platforms="4f1c=acme,9d2e=other")
    error = await refused(tokens, issuer.sign(**claims))
    assert (error.code, said in error.message) == ("auth.unmapped", True), error.message


async def test_s1_a_claim_is_no_platform_unless_it_could_be_the_id_of_one(issuer: LocalIssuer) -> None:
    tokens = tokens_of(issuer, platform_claim="tenant")
    for value in ("", "*", "Acme", "a b", ["acme", "other"], 5):
        assert (await refused(tokens, issuer.sign(tenant=value))).code == "auth.unmapped"


async def test_keys_are_fetched_once_for_many_tokens(issuer: LocalIssuer) -> None:
    tokens = tokens_of(issuer)
    found = await asyncio.gather(*(tokens.authenticate(issuer.sign(sub=f"user {n}")) for n in range(20)))
    assert (len({principal.name for principal in found if principal}), issuer.asked) == (20, 1)


async def test_a_rotated_key_is_found_by_its_id(issuer: LocalIssuer) -> None:
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    old = issuer.sign()
    assert await tokens.authenticate(old)
    issuer.keys = {"second": make_signing_key(number=1)}
    clock.seconds += RETRY_SECONDS
    assert await tokens.authenticate(issuer.sign(kid="second"))
    assert await tokens.authenticate(old) is None  # its key was withdrawn
    assert issuer.asked == 2


async def test_s1_a_withdrawn_key_ends_although_no_token_names_a_new_one(issuer: LocalIssuer) -> None:
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    token = issuer.sign()
    assert await tokens.authenticate(token)
    issuer.keys = {"second": make_signing_key(number=1)}
    clock.seconds += FRESH_SECONDS
    assert await tokens.authenticate(token)  # the caller does not wait for the issuer
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await tokens.authenticate(token):
            await asyncio.sleep(0.01)
    assert issuer.asked == 2


async def test_s7_unknown_ids_of_keys_do_not_make_us_call_the_issuer_for_each_request(issuer: LocalIssuer) -> None:
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    good = issuer.sign()
    for second in range(int(3 * RETRY_SECONDS)):
        storm = [sign(issuer.claims(), make_signing_key(number=1), kid=f"{second}-{n}") for n in range(3)]
        assert await asyncio.gather(*map(tokens.authenticate, storm)) == [None] * 3
        assert await tokens.authenticate(good)
        clock.seconds += 1
    assert issuer.asked == 3


async def test_old_keys_are_used_while_the_issuer_is_down(issuer: LocalIssuer) -> None:
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    assert await tokens.authenticate(issuer.sign())
    issuer.receiver.behave = answering(503)
    for fetches in range(3):
        clock.seconds += FRESH_SECONDS
        assert await tokens.authenticate(issuer.sign())
        await issuer.receiver.wait(3 + fetches)
        assert await tokens.authenticate(sign(issuer.claims(), make_signing_key(), kid="unknown")) is None
    issuer.receiver.behave = issuer.answer
    issuer.keys["second"] = make_signing_key(number=1)
    clock.seconds += RETRY_SECONDS
    assert await tokens.authenticate(issuer.sign(kid="second"))


async def test_keys_that_the_issuer_withdraws_or_nobody_can_confirm_are_not_used_for_ever(issuer: LocalIssuer) -> None:
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    token = issuer.sign(exp=2**40)
    assert await tokens.authenticate(token)
    issuer.receiver.behave = answering(503)
    clock.seconds += MAX_STALE_SECONDS
    assert (await refused(tokens, token)).code == "auth.unavailable"

    issuer.receiver.behave = issuer.answer
    issuer.keys.clear()
    clock.seconds += RETRY_SECONDS
    assert await tokens.authenticate(token) is None


async def test_an_issuer_that_never_answered_is_no_fault_of_the_caller(issuer: LocalIssuer) -> None:
    issuer.receiver.behave = answering(500)
    clock = Clock()
    tokens = tokens_of(issuer, clock)
    for _ in range(2):
        error = await refused(tokens, issuer.sign())
        assert (type(error), error.code) == (Unavailable, "auth.unavailable")
    assert len(issuer.receiver.requests) == 1
    issuer.receiver.behave = issuer.answer
    assert tokens.find_problem()
    clock.seconds += RETRY_SECONDS
    await wait_until_async(lambda: tokens.find_problem() is None)  # who asks for health causes a fetch, too
    assert await tokens.authenticate(issuer.sign())
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({"issuer": "https://login.example/{tenantid}/v2.0"}, "its issuer is"),
        ({"jwks_uri": "http://169.254.169.254/keys"}, "link-local"),
        ({"jwks_uri": "http://keys.example/keys"}, "https"),
        ({"jwks_uri": None}, "jwks_uri"),
    ],
)
async def test_s3_a_discovery_document_that_leads_elsewhere_is_refused(
    issuer: LocalIssuer, published: dict[str, Any], said: str
) -> None:
    issuer.published = published
    with pytest.raises(Unavailable, match=said) as caught:
        await fetch_keys(issuer.url, ["RS256"])
    assert caught.value.code == "oidc.issuer"


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (answering(302, "Location: /realms/maps/keys"), "302"),
        (answering(200, body=b"<html>"), "JSON"),
        (answering(200, body=b"[" * 100_000), "JSON"),
        (answering(200, body=b'{"a": "' + b"x" * 300_000 + b'"}'), "larger"),
    ],
    ids=["redirect", "page", "deep", "large"],
)
async def test_s7_what_the_issuer_answers_is_bounded_and_no_redirect_is_followed(
    issuer: LocalIssuer, behave: Any, said: str
) -> None:
    issuer.receiver.behave = behave
    with pytest.raises(Unavailable, match=said):
        await fetch_keys(issuer.url, ["RS256"])
    assert len(issuer.receiver.requests) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": "http://login.example"}, "https"),
        ({"issuer": "https://login.example?a=b"}, "query"),
        ({"issuer": "login.example"}, "https"),
        ({"issuer": "https://login.example", "audience": ""}, "audience"),
        ({"algorithms": "HS256"}, "algorithms"),
        ({"algorithms": "none"}, "algorithms"),
        ({"algorithms": ""}, "algorithms"),
        ({"scopes": "gis=owner"}, "scopes"),
        ({"scopes": "gis"}, "VALUE=SCOPE"),
        ({"platforms": "gis=A B"}, "platform"),
        ({"platforms": "gis=acme"}, "platform_claim"),
        ({"leeway_seconds": 3600}, "leeway"),
    ],
)
def test_settings_that_would_not_do_are_refused(given: dict[str, Any], said: str) -> None:
    usual = {"issuer": "https://login.example", "audience": AUDIENCE}
    with pytest.raises(ValidationError, match=said):
        OidcSettings(**{**usual, **given})


def test_the_settings_of_the_page_can_be_used(tmp_path: Path) -> None:
    blocks = list(read_blocks("docs/howto/tokens.md", "toml"))
    for block in blocks:
        (tmp_path / "anabranch.toml").write_text(block.text)
        assert load_settings(home=tmp_path).oidc.issuer
    assert len(blocks) == 5


def test_settings_are_read_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ISSUER": "https://login.example/v2.0",
        "AUDIENCE": "api://one,api://two",
        "SCOPES": "readers=read, ops=admin",
        "PLATFORM_CLAIM": "groups",
        "PLATFORMS": "4f1c=acme",
        "ALGORITHMS": "ES256",
    }.items():
        monkeypatch.setenv(f"ANABRANCH_OIDC__{name}", value)
    found = Settings().oidc
    assert (found.audience, found.algorithms) == (("api://one", "api://two"), ("ES256",))
    assert (found.scopes, found.platforms) == ({"readers": Scope.READ, "ops": Scope.ADMIN}, {"4f1c": "acme"})
