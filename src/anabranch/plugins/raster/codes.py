"""The error codes of rasters."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("raster.archive", Kind.TASK, "The ZIP archive can't be used: it holds no raster or several, or exceeds a limit.", "Send an archive with one raster and its sidecars; the message names what is wrong."),
    Code("raster.band_masks", Kind.TASK, "Bands have separate masks, and a COG has one mask for all bands.", "Write a nodata value where a band has no data, or send each band as its own file."),
    Code("raster.bounds", Kind.TASK, "The raster's bounds are impossible in its coordinate system.", "Check whether the coordinate system is right, and whether x and y were swapped."),
    Code("raster.codec", Kind.TASK, "The file uses a compression that GDAL can't decode here.", "Rewrite it with a common compression, on a machine that has the codec."),
    Code("raster.crs_conflict", Kind.TASK, "The raster's coordinate system differs from `input_crs`.", "Omit `input_crs`; give `target_crs` to reproject the output."),
    Code("raster.crs_heights", Kind.TASK, "The raster's coordinate system is projected and has heights as a third axis.", "Give the same system without heights as `input_crs`."),
    Code("raster.crs_kind", Kind.TASK, "A coordinate system of this kind (geocentric, vertical, compound) can't be that of a raster.", "Give the code of a projected or geographic one, like EPSG:32633."),
    Code("raster.crs_local", Kind.TASK, "The raster's coordinate system is neither geographic nor projected.", "Give the coordinate system of its coordinates as `input_crs`, or georeference the raster."),
    Code("raster.crs_missing", Kind.TASK, "The raster has no coordinate system.", "Give the coordinate system of its coordinates as `input_crs`, like EPSG:32633."),
    Code("raster.crs_text", Kind.TASK, "The value is not the code of a coordinate system.", "Give a code like EPSG:32633."),
    Code("raster.crs_unknown", Kind.TASK, "No coordinate system has this code.", "Give a code like EPSG:32633."),
    Code("raster.damaged", Kind.TASK, "The file starts like a raster, but can't be opened.", "Upload it again; open it elsewhere to check that it is complete."),
    Code("raster.disk", Kind.TASK_AGAIN, "The disk is full, or too small for a tile.", "Free disk space in the workers' scratch folder, then run the job again."),
    Code("raster.driver_missing", Kind.TASK, "The installed build of GDAL can't read this format.", "Convert the file on a machine whose GDAL can, with `gdal_translate -of COG`."),
    Code("raster.drivers", Kind.TASK, "GDAL has loaded drivers that are not allowed.", "It is a bug in Anabranch: report it, with the version of GDAL."),
    Code("raster.dtype", Kind.TASK, "The pixels are complex numbers.", "Write amplitude and phase as bands of real numbers."),
    Code("raster.empty", Kind.TASK, "The file has zero bytes.", "Upload it again."),
    Code("raster.empty_pixels", Kind.TASK, "At least 99 % of the raster is nodata.", "Send a raster that has data, or fix its nodata value, mask or alpha band."),
    Code("raster.files", Kind.TASK, "Some files of a collection can't be published, so that none is.", "Fix or leave out the files that the message and the report name; each has its own code."),
    Code("raster.fill_value", Kind.TASK, "A value looks like a fill value that is not declared as nodata.", "Declare it as nodata in the file."),
    Code("raster.format", Kind.TASK, "The file format is not a supported raster format.", "Convert it to a GeoTIFF with `gdal_translate -of COG`."),
    Code("raster.invalid", Kind.TASK, "Several things are wrong with the raster.", "Fix them all; the message names each with its own code."),
    Code("raster.kind", Kind.TASK, "The raster is not of the declared kind.", "Omit `raster_type`, or declare the one that the message names."),
    Code("raster.library", Kind.TASK, "GDAL can't process the raster; the message is GDAL's own.", "Rewrite the file with `gdal_translate -of COG`, and send that."),
    Code("raster.missing", Kind.TASK, "The file is not on the machine.", "Stage it again, then retry."),
    Code("raster.mixed", Kind.TASK, "Rasters of a collection differ in bands, data type, CRS, pixel size or kind.", "Leave out those that the message names, or set `allow_mixed`."),
    Code("raster.no_georeference", Kind.TASK, "The raster has no geotransform, or only control points or RPCs.", "Send its world file along, give `target_crs` to have it warped by its control points, or rectify it first."),
    Code("raster.no_sources", Kind.TASK, "The folder or the list holds no raster.", "Check the address with `anabranch storage ls`, and the extensions."),
    Code("raster.not_written", Kind.TASK, "The COG could not be written.", "Open the file elsewhere to check that it is complete; upload it again."),
    Code("raster.reprojection", Kind.TASK, "The raster can't be reprojected to `target_crs`.", "Choose one that covers the raster's area."),
    Code("raster.rotated", Kind.TASK, "The raster is rotated or sheared.", "Give `target_crs` (the raster's own is allowed) to have it resampled."),
    Code("raster.sidecar", Kind.TASK, "A file beside the raster does not fit it, or can't be read.", "Fix it or leave it out; the message names the file and the reason."),
    Code("raster.sources", Kind.TASK, "The list of rasters can't be used: a line names no raster, or a file or an id is there twice.", "Fix the list; the message names the lines, files or ids."),
    Code("raster.tier", Kind.TASK, "The profile visualization is for 8-bit rgb and rgba only.", "Request the profile `analysis` or `archive`."),
    Code("raster.time", Kind.TASK, "The variable has several times and none was chosen, or it lacks the chosen one.", "Set `time` to one that the message lists, or to `all`."),
    Code("raster.too_large", Kind.TASK, "The raster exceeds a limit.", "Write it as an ordinary tiled GeoTIFF, split it, or raise the limit."),
    Code("raster.too_many", Kind.TASK, "There are more rasters than one job takes.", "Publish them in several jobs, or raise `raster_max_files`."),
    Code("raster.truncated", Kind.TASK, "The file ends before its pixels do.", "Upload it again; compare its size and checksum with the original."),
    Code("raster.unreadable", Kind.TASK, "Some pixels can't be read.", "Upload the file again; compare its size and checksum with the original."),
    Code("raster.unconfined", Kind.TASK, "This format may refer to other files, and the kernel can't keep them closed.", "Convert the file to a GeoTIFF, or run workers on Linux 5.13 or later with Landlock."),
    Code("raster.variable", Kind.TASK, "The file has several variables and none was chosen, or it lacks the chosen one.", "Set `variable` to one that the message lists."),
    Code("raster.verify", Kind.TASK, "The COG failed verification.", "It was not published, and another run gives the same result: report it."),
    Code("raster.window", Kind.TASK, "A tile ends beyond the raster.", "Plan the tiles again, for this source and this `target_crs`."),
)
# fmt: on
