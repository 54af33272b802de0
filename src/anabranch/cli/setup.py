"""The settings of a command, with its logs set up."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.settings import Settings

__all__ = ["find_unknown", "prepare", "warn_of_unknown"]


def prepare(*, quiet: bool = False, **given: object) -> "Settings":
    """The settings, those given (not None) above all others; quiet: the command tells itself what there is to tell."""
    from anabranch.logs import configure_logs
    from anabranch.settings import load_settings

    settings = load_settings(**{name: value for name, value in given.items() if value is not None})
    level = "critical" if quiet and settings.log_level == "info" else settings.log_level
    configure_logs(level, settings.log_format)
    return settings


def find_unknown() -> list[str]:
    """What to say of each variable that looks like a setting and is none."""
    from anabranch.embedded.home import CHILD_MARK
    from anabranch.embedded.supervisor import LISTEN_FD
    from anabranch.settings import unknown_variables

    return [
        f"{name} is not a setting, and ignored; the nearest that is one is {nearest}"
        for name, nearest in unknown_variables(ours={CHILD_MARK, LISTEN_FD})
    ]


def warn_of_unknown() -> None:
    """Warn of variables that look like settings and are none."""
    from anabranch.cli.show import note

    for warning in find_unknown():
        note(f"warning: {warning}")
