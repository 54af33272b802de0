"""The error codes of what is served: catalog, tiles and files."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("item.no_raster", Kind.NOT_FOUND, "The item has no such raster.", "See the item's assets at /stac."),
    Code("asset.unreadable", Kind.INTERNAL, "A published raster can't be read.", "See the API's log; restore the file, or run the job again."),
    Code("catalog.query", Kind.INVALID, "The catalog can't run this search.", "Fix the search; its parameters are described at /openapi.json.", 400),
    Code("catalog.slow", Kind.UNAVAILABLE, "A search of the catalog took too long.", "Ask for a smaller area, time or page."),
    Code("feature.not_found", Kind.NOT_FOUND, "The layer has no such feature.", "List features at /features/collections/{layer}/items."),
    Code("features.changing", Kind.UNAVAILABLE, "The layer was published again while it was read.", "Try again."),
    Code("features.query", Kind.INVALID, "The query for features can't be run.", "Fix it; the parameters are described at /openapi.json.", 400),
    Code("features.size", Kind.INVALID, "A feature is too large for one response.", "Read the layer by its tiles or its files."),
    Code("features.slow", Kind.UNAVAILABLE, "A query for features took too long.", "Ask for a smaller area, a simpler filter or a higher zoom."),
    Code("features.tile", Kind.NOT_FOUND, "The grid has no such tile.", "Zooms, columns and rows begin at 0; see tileMatrixSets."),
    Code("layer.not_found", Kind.NOT_FOUND, "No layer of this name is published.", "List layers at /features/collections."),
    Code("raster.assets", Kind.INVALID, "The request needs too many items of a layer, or tiles of a mosaic.", "Zoom in, or request a smaller area, fewer items or fewer pixels."),
    Code("raster.outside", Kind.NOT_FOUND, "The requested area is outside the raster.", "Its bounds are in tilejson.json."),
    Code("raster.query", Kind.INVALID, "The parameters for drawing or reading a raster are invalid.", "The routes and their parameters are described at /openapi.json."),
    Code("raster.size", Kind.INVALID, "The request is larger than one request may compute.", "Split it into several smaller requests."),
    Code("raster.slow", Kind.UNAVAILABLE, "The raster was not drawn in time.", "Ask for less, or try again later."),
    Code("serving.drivers", Kind.UNAVAILABLE, "GDAL was used in the API's process before its drivers were restricted.", "Import and use GDAL only in the handlers of plugins."),
    Code("serving.not_installed", Kind.UNAVAILABLE, "The packages that serve the catalog and tiles are not installed.", "Install anabranch[serving]."),
)
# fmt: on
