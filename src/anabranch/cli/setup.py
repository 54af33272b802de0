"""The settings of a command, with its logs set up."""

from anabranch.cli.terminal.output import note
from anabranch.embedded.home import CHILD_MARK
from anabranch.embedded.supervisor import LISTEN_FD
from anabranch.logs import configure_logs
from anabranch.settings import Settings, load_settings, unknown_variables

__all__ = ["find_unknown", "prepare", "warn_of_unknown"]


def prepare(*, quiet: bool = False, **given: object) -> Settings:
    """The settings, overridden by those given (if not None); `quiet` hides info logs."""
    settings = load_settings(**{name: value for name, value in given.items() if value is not None})
    level = "critical" if quiet and settings.log_level == "info" else settings.log_level
    configure_logs(level, settings.log_format)
    return settings


def find_unknown() -> list[str]:
    """A warning for each ANABRANCH_ variable that is not a setting."""
    return [
        f"{name} is not a setting and is ignored; the nearest setting is {nearest}"
        for name, nearest in unknown_variables(ours={CHILD_MARK, LISTEN_FD})
    ]


def warn_of_unknown() -> None:
    """Print a warning for each ANABRANCH_ variable that is not a setting."""
    for warning in find_unknown():
        note(f"warning: {warning}")
