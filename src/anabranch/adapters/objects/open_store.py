"""Opens cloud stores with the configured options only; nothing is read from the environment or the machine."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anabranch.errors import InputError, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Options", "open_store"]

Options = Mapping[str, str | bool]

# The credentials of each scheme. Where none are given, obstore would ask the machine it runs on.
CREDENTIAL_OPTIONS: Mapping[str, tuple[frozenset[str], ...]] = {
    "s3": (
        frozenset({"access_key_id", "secret_access_key"}),
        frozenset({"web_identity_token_file", "role_arn"}),
        frozenset({"container_credentials_relative_uri"}),
        frozenset({"container_credentials_full_uri"}),
        frozenset({"metadata_endpoint"}),
    ),
    "az": (
        frozenset({"account_name", "account_key"}),
        frozenset({"account_name", "sas_key"}),
        frozenset({"account_name", "token"}),
        frozenset({"account_name", "client_id", "client_secret", "tenant_id"}),
        frozenset({"account_name", "client_id", "federated_token_file", "tenant_id"}),
        frozenset({"account_name", "credential_type"}),
        frozenset({"account_name", "use_azure_cli"}),
    ),
    "gs": (
        frozenset({"service_account_key"}),
        frozenset({"service_account"}),
        frozenset({"bearer_token"}),
        frozenset({"application_credentials"}),
    ),
}
CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "proxy_url", "root_certificate")
FOREIGN_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "MSI_", "IDENTITY_")
_LOCK = threading.Lock()


def open_store(tier: str, url: str, options: Options) -> "ObjectStore":
    """The store at a URL; InputError when the options have no credentials, or are unknown."""
    scheme = urlsplit(url).scheme
    _require_credentials(tier, scheme, options)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise Unavailable(
            "storage.not_installed",
            f"the tier {tier} is in a cloud, and the package obstore is not installed",
            remedy="Install anabranch[storage].",
        ) from None
    open_url: Any = from_url  # its overloads want the type of a store's own options
    config = {name: value for name, value in options.items() if name not in CLIENT_OPTIONS}
    client = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
    try:
        with _without_foreign():
            opened: ObjectStore = open_url(
                url, config=config, client_options={**TIMEOUTS, **client}, retry_config=RETRIES
            )
            return opened
    except (BaseError, ValueError, TypeError) as error:
        names = ", ".join(sorted(options))
        raise InputError(
            "storage.options",
            f"the tier {tier} can't be opened with the options {names or 'that there are'} ({type(error).__name__})",
            remedy="Correct ANABRANCH_STORAGE__OPTIONS; its names are those of obstore's configuration.",
        ) from None


TIMEOUTS: Mapping[str, Any] = {
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(minutes=3),  # of a silence; a part of an upload must be through in it, too
    "timeout": timedelta(hours=12),  # of a whole request: a large object may take hours
}
# The engine tries again later; here only what passes in a moment.
RETRIES: Any = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}


def _require_credentials(tier: str, scheme: str, options: Options) -> None:
    given = {name for name, value in options.items() if value not in ("", False, "auto")}
    if "skip_signature" in given or any(needed <= given for needed in CREDENTIAL_OPTIONS[scheme]):
        return
    ways = "; or ".join(" and ".join(sorted(needed)) for needed in CREDENTIAL_OPTIONS[scheme][:2])
    raise InputError(
        "storage.options",
        f"the tier {tier} is at {scheme}://, and its options have no credentials",
        remedy=f"Give {ways} in ANABRANCH_STORAGE__OPTIONS, or skip_signature for what is public.",
    )


@contextmanager
def _without_foreign() -> Iterator[None]:
    """Hide variables that obstore would read by itself: only our own settings count."""
    with _LOCK:
        held = {name: value for name, value in os.environ.items() if name.upper().startswith(FOREIGN_PREFIXES)}
        for name in held:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(held)
