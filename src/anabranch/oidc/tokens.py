"""Verifies tokens of the configured issuer (RFC 7519, RFC 8725)."""

import re
import time
from collections.abc import Callable, Mapping

import jwt
from jwt.exceptions import (
    DecodeError,
    ExpiredSignatureError,
    ImmatureSignatureError,
    InvalidAlgorithmError,
    InvalidAudienceError,
    InvalidIssuedAtError,
    InvalidIssuerError,
    InvalidJTIError,
    InvalidSubjectError,
    InvalidTokenError,
    MissingRequiredClaimError,
    PyJWTError,
)

from anabranch.access import NotAuthenticated, Principal
from anabranch.errors import AnabranchError
from anabranch.oidc.claims import find_principal
from anabranch.oidc.issuer import Issuer
from anabranch.oidc.settings import OidcSettings
from anabranch.redaction import TOKEN

__all__ = ["MAX_TOKEN_CHARACTERS", "Tokens"]

MAX_TOKEN_CHARACTERS = 8192
# What is accepted is what logs and errors hide (S5).
SHAPE = re.compile(r"eyJ[A-Za-z0-9_-]+" + TOKEN.pattern)
TYPES = ("jwt", "at+jwt", "application/at+jwt")
REQUIRED = ["exp", "iss", "aud", "sub"]
CLAIMS: Mapping[type[InvalidTokenError], str] = {
    InvalidAudienceError: "aud",
    InvalidIssuerError: "iss",
    InvalidSubjectError: "sub",
    InvalidIssuedAtError: "iat",
    InvalidJTIError: "jti",
}


class Tokens:
    """Finds out whose token it is, by the keys that the issuer publishes."""

    def __init__(self, settings: OidcSettings, now: Callable[[], float] = time.monotonic) -> None:
        """Fetches nothing yet."""
        self._settings = settings
        self._issuer = Issuer(settings.issuer or "", settings.algorithms, now)

    async def authenticate(self, token: str) -> Principal | None:
        """Who acts with a token; None if it is none of the issuer, whatever is wrong with it.

        What is wrong with a token that the issuer did sign is said: it is expired, is for others, or gives no scope.
        """
        if len(token) > MAX_TOKEN_CHARACTERS or not SHAPE.fullmatch(token):
            return None
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            return None
        kid, algorithm = header.get("kid"), header.get("alg")
        if not kid or algorithm not in self._settings.algorithms or str(header.get("typ", "jwt")).lower() not in TYPES:
            return None
        key = await self._issuer.find(kid, algorithm)
        claims = self._verify(token, key) if key else None
        return None if claims is None else find_principal(claims, self._settings)

    def find_problem(self) -> AnabranchError | None:
        """Why the keys of the issuer could not be fetched last, if that is so."""
        return self._issuer.find_problem()

    def close(self) -> None:
        """Fetch no more keys."""
        self._issuer.close()

    def _verify(self, token: str, key: jwt.PyJWK) -> Mapping[str, object] | None:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=self._settings.algorithms,
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_seconds,
                options={"require": REQUIRED, "enforce_minimum_key_length": True},
            )
        except ExpiredSignatureError:
            raise NotAuthenticated("auth.expired", "this token has expired", remedy="Get a new one.") from None
        except ImmatureSignatureError as error:
            raise _refused(str(error)) from None
        except MissingRequiredClaimError as error:
            raise _refused(f"it has no claim {error.claim}") from None
        except (DecodeError, InvalidAlgorithmError):
            return None
        except InvalidTokenError as error:
            raise _refused(f"its claim {CLAIMS.get(type(error), '')} is not the one that is expected") from None


def _refused(reason: str) -> NotAuthenticated:
    return NotAuthenticated("auth.token", f"the token can't be used here: {reason}")
