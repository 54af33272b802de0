"""The settings of a command, with its logs set up."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.settings import Settings

__all__ = ["prepare"]


def prepare(*, quiet: bool = False, **given: object) -> "Settings":
    """The settings, those given (not None) above all others; quiet: what goes well is not logged."""
    from anabranch.logs import configure_logs
    from anabranch.settings import load_settings

    settings = load_settings(**{name: value for name, value in given.items() if value is not None})
    level = "warning" if quiet and settings.log_level == "info" else settings.log_level
    configure_logs(level, settings.log_format)
    return settings
