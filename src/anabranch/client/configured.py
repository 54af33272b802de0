"""The API that is configured in the settings."""

from anabranch.errors import InputError

__all__ = ["configured_api"]


def configured_api() -> tuple[str, str | None]:
    """The URL and the key that ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
    from anabranch.settings import load_settings

    settings = load_settings()
    if settings.api_url is None:
        raise InputError("api.url", "no API is configured", remedy="Set ANABRANCH_API_URL.")
    return settings.api_url, settings.api_key.get_secret_value() if settings.api_key else None
