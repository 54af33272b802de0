"""The error codes of zonal statistics."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("zonal.band", Kind.TASK, "The raster has no band of this number.", "Give a `band` from 1 to the number of bands that the message says."),
    Code("zonal.kind", Kind.TASK, "The asset is no raster that can be read: a picture, a document, a mosaic whose tiles are not published, or a file elsewhere.", "Give the `asset` of a raster that `process_raster` published."),
    Code("zonal.layer_changed", Kind.CONFLICT, "The layer was replaced, or rows were added, after the job had begun.", "Submit the job again with `--rerun`."),
    Code("zonal.library", Kind.TASK, "The raster can't be read, or exactextract can't process it with these polygons.", "Verify the raster with `anabranch verify`; report a bug if it is as it was published."),
    Code("zonal.no_asset", Kind.NOT_FOUND, "There is no such published item, or it has no such asset.", "`anabranch items list` shows what is published; `anabranch items show` its assets."),
    Code("zonal.not_polygons", Kind.TASK, "The layer has no polygons.", "Give a layer of polygons."),
    Code("zonal.rotated", Kind.TASK, "The raster is rotated, sheared, mirrored or without a coordinate system.", "Publish it with `process_raster`, which makes it north up."),
)
