"""`config`: the settings and their origins."""

from anabranch.cli.setup import warn_of_unknown
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import print_json, print_table
from anabranch.embedded.home import Home
from anabranch.settings import load_settings, origins

__all__ = ["show"]


def show(json: Json = False) -> None:
    """Show every setting with its value and origin."""
    settings = load_settings()
    warn_of_unknown()
    stack = Home(settings.home).read_stack()
    api_url = settings.api_url or (stack.api_url if stack else None)
    known = list(origins(settings))
    if json:
        print_json({"api_url": api_url, "settings": {o.name: {"value": o.value, "origin": o.origin} for o in known}})
        return
    rows = [[o.name, _spell(o.value), o.origin] for o in known if o.name != "api_url" or settings.api_url]
    found = [] if settings.api_url else [["api_url", _spell(api_url), "the running stack"]]
    print_table(["setting", "value", "origin"], [*rows, *found])


def _spell(value: object) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, dict):
        value = [f"{name}={meant}" for name, meant in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
