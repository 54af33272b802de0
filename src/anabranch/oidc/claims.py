"""What the claims of a verified token mean here: who acts, with which scope, for which platform."""

from collections.abc import Iterator, Mapping

from anabranch.access import DEFAULT_PLATFORM, NAME_PATTERN, PLATFORM_PATTERN, NotAuthenticated, Principal, holds_key
from anabranch.enums import Scope
from anabranch.errors import AnabranchError
from anabranch.oidc.settings import OidcSettings

__all__ = ["find_principal"]


def find_principal(claims: Mapping[str, object], settings: OidcSettings) -> Principal:
    """Who acts with a token that has these claims (P7)."""
    subject, platform = _find_subject(claims, settings), _find_platform(claims, settings)
    scope = _find_scope(claims, settings)
    return Principal(f"{platform}/{subject}", platform, scope, issuer=settings.issuer)


def _find_subject(claims: Mapping[str, object], settings: OidcSettings) -> str:
    subject = _find_claim(claims, settings.subject_claim)
    if not isinstance(subject, str) or not NAME_PATTERN.fullmatch(subject) or subject.isspace() or holds_key(subject):
        raise NotAuthenticated(
            "auth.token",
            f"the claim {settings.subject_claim} of the token is not a text of 1 to 200 printable characters",
        )
    return subject


def _find_scope(claims: Mapping[str, object], settings: OidcSettings) -> Scope:
    values = {value for name in settings.scope_claims for value in _list_values(claims, name)}
    scopes = [scope for value, scope in settings.scopes.items() if value in values]
    if not scopes:
        names = ", ".join(settings.scope_claims)
        raise AnabranchError(
            "auth.unmapped",
            f"the token gives no scope: none of its claims {names} has a value that is mapped to one",
            remedy="Have the issuer put one into the token, like anabranch.read; the operator maps others by "
            "ANABRANCH_OIDC__SCOPES.",
        )
    return max(scopes, key=list(Scope).index)


def _find_platform(claims: Mapping[str, object], settings: OidcSettings) -> str:
    name = settings.platform_claim
    if name is None:
        return DEFAULT_PLATFORM
    values = set(_list_values(claims, name))
    found = (
        {settings.platforms[value] for value in values if value in settings.platforms}
        if settings.platforms
        else {value for value in values if PLATFORM_PATTERN.fullmatch(value)}
    )
    if len(found) == 1:
        return found.pop()
    reason = "gives several" if found else "is missing, or has no value that is mapped to one"
    raise AnabranchError(
        "auth.unmapped",
        f"the token gives no platform: its claim {name} {reason}",
        remedy="Have the issuer put one into the token; the operator maps values by ANABRANCH_OIDC__PLATFORMS.",
    )


def _list_values(claims: Mapping[str, object], path: str) -> Iterator[str]:
    """The texts of a claim: of a list, or separated by spaces."""
    value = _find_claim(claims, path)
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _find_claim(claims: object, path: str) -> object:
    """The claim of this name, or what a path of names joined by dots leads to."""
    if not isinstance(claims, Mapping):
        return None
    if path in claims:
        return claims[path]
    name, dot, rest = path.partition(".")
    return _find_claim(claims.get(name), rest) if dot else None
