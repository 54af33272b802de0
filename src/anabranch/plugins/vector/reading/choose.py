"""The layers that a caller asked for, by comparison with those of the file."""

from collections.abc import Sequence

from anabranch.errors import Permanent
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["check_name", "choose_layers", "show_names"]

MAX_LISTED = 20
STYLE_TABLES = frozenset({"layer_styles", "qgis_projects"})


def choose_layers(
    file: str, layers: Sequence[tuple[str, bool]], wanted: str | None, settings: VectorSettings
) -> tuple[list[str], tuple[str, ...]]:
    """The chosen layer, or all that have geometries; and a notice of those that have none."""
    check_name(file, wanted, [name for name, _ in layers])
    spatial = [name for name, has_geometry in layers if has_geometry and wanted in (None, name)]
    others = [name for name, has_geometry in layers if not has_geometry and name.lower() not in STYLE_TABLES]
    if not spatial:
        what = f"the layer {show_text(wanted)!r} of {file} has" if wanted else f"{file} has no layer with geometries:"
        listed = (
            "attributes only, and no geometries" if wanted else f"it has {show_names([name for name, _ in layers])}"
        )
        raise Permanent(
            f"{what} {listed}",
            code="vector.no_geometry",
            remedy="Send a file with geometries; a table without them can be joined to one before it is sent.",
        )
    if len(spatial) > settings.vector_max_layers:
        raise Permanent(
            f"{file} has {len(spatial):,} layers, over the limit of {settings.vector_max_layers:,}",
            code="vector.layers",
            remedy=f"Set `layer` to one of them, like `{show_text(spatial[0])}`, or send them in several files.",
        )
    if wanted or not others:
        return spatial, ()
    return spatial, (f"Tables without geometries are not published: {show_names(others)}.",)


def check_name(file: str, wanted: str | None, names: Sequence[str]) -> None:
    """Refuse a name that no layer has."""
    if wanted is None or wanted in names:
        return
    listed = f"it has {show_names(names)}" if names else "it has none"
    raise Permanent(
        f"{file} has no layer {show_text(wanted)!r}: {listed}",
        code="vector.layer",
        remedy=f"Set `layer` to one of them, like `{show_text(names[0])}`, or omit it." if names else "Omit `layer`.",
    )


def show_names(names: Sequence[str]) -> str:
    """Some names for a message."""
    more = f", and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(show_text(name) for name in names[:MAX_LISTED]) + more if names else "none"
