"""The error codes of vectors."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("vector.axes", Kind.TASK, "The layer's x and y are swapped: it is only where its coordinate system is used with them the other way.", "Write x (or longitude) before y (or latitude); for CSV, set `lon` and `lat` the other way."),
    Code("vector.columns", Kind.TASK, "The layer has more columns than allowed.", "Remove columns, or divide the layer."),
    Code("vector.coordinates", Kind.TASK, "Most rows are not on Earth in the layer's coordinate system.", "Check whether the coordinate system is right; give it as `crs` if the file has none."),
    Code("vector.crs_conflict", Kind.TASK, "The layer's coordinate system differs from `crs`.", "Omit `crs`; if the file is wrong, correct its coordinate system there."),
    Code("vector.crs_kind", Kind.TASK, "The coordinate system is neither geographic nor projected, or not one of the Earth.", "Give the code of a projected or geographic one, like EPSG:25832."),
    Code("vector.crs_local", Kind.TASK, "The layer's coordinate system is local, so it has no place on a map.", "Give the coordinate system of its coordinates as `crs`."),
    Code("vector.crs_missing", Kind.TASK, "The layer has no coordinate system, and its values don't show that they are degrees.", "Give the coordinate system of its coordinates as `crs`, like EPSG:25832."),
    Code("vector.crs_text", Kind.TASK, "The value is not the code of a coordinate system, or the file's WKT can't be used.", "Give a code like EPSG:25832; in the file, write the coordinate system by its code."),
    Code("vector.crs_unknown", Kind.TASK, "No coordinate system has this code.", "Give a code like EPSG:25832."),
    Code("vector.no_features", Kind.TASK, "The layer has no features, or none is left; the message says what was dropped and why.", "Send a layer with features that have geometries."),
    Code("vector.rows_lost", Kind.TASK, "Rows were neither written nor reported as dropped.", "It is a bug in Anabranch: report it, with the file if you may."),
    Code("vector.vertices", Kind.TASK, "A feature has more vertices than allowed.", "Simplify the feature or divide it, or raise the setting `vector_max_vertices`."),
)
