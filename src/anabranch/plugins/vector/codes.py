"""The error codes of vectors."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("vector.append_columns", Kind.TASK, "The columns or geometries of the file are not those of the layer that rows are added to.", "Send a file with the same columns, or publish it under another `table`, or with `mode` replace."),
    Code("vector.append_layers", Kind.TASK, "The file has several layers, and rows can be added from one.", "Choose one with `layer`."),
    Code("vector.archive", Kind.TASK, "The ZIP archive can't be used: it holds no vector file or several, or exceeds a limit.", "Send an archive with Shapefiles, a file geodatabase, or one file of another format; the message names what is wrong."),
    Code("vector.axes", Kind.TASK, "The layer's x and y are swapped: it is only where its coordinate system is used with them the other way.", "Write x (or longitude) before y (or latitude); for CSV, set `lon` and `lat` the other way."),
    Code("vector.bad_rows", Kind.TASK, "Too many rows of a CSV file can't be read.", "Fix the rows that the message names; check `delimiter`, `lat` and `lon`."),
    Code("vector.columns", Kind.TASK, "The layer has more columns than allowed.", "Remove columns, or divide the layer."),
    Code("vector.coordinates", Kind.TASK, "Most rows are not on Earth in the layer's coordinate system.", "Check whether the coordinate system is right; give it as `crs` if the file has none."),
    Code("vector.crs_conflict", Kind.TASK, "The layer's coordinate system differs from `crs`.", "Omit `crs`; if the file is wrong, correct its coordinate system there."),
    Code("vector.crs_kind", Kind.TASK, "The coordinate system is neither geographic nor projected, or not one of the Earth.", "Give the code of a projected or geographic one, like EPSG:25832."),
    Code("vector.crs_local", Kind.TASK, "The layer's coordinate system is local, so it has no place on a map.", "Give the coordinate system of its coordinates as `crs`."),
    Code("vector.crs_missing", Kind.TASK, "The layer has no coordinate system, and its values don't show that they are degrees.", "Give the coordinate system of its coordinates as `crs`, like EPSG:25832."),
    Code("vector.crs_text", Kind.TASK, "The value is not the code of a coordinate system, or the file's WKT can't be used.", "Give a code like EPSG:25832; in the file, write the coordinate system by its code."),
    Code("vector.crs_unknown", Kind.TASK, "No coordinate system has this code.", "Give a code like EPSG:25832."),
    Code("vector.csv", Kind.TASK, "The CSV file has no header or no columns with geometries, or can't be parsed.", "Make the names of the columns the first line, and name them lat and lon, or wkt; or give their names."),
    Code("vector.damaged", Kind.TASK, "The file starts like one of its format, but can't be read to its end.", "Upload it again; open it elsewhere to check that it is complete."),
    Code("vector.drivers", Kind.TASK, "GDAL has loaded drivers that are not allowed.", "It is a bug in Anabranch: report it, with the version of GDAL."),
    Code("vector.empty", Kind.TASK, "The file has zero bytes.", "Upload it again."),
    Code("vector.encoding", Kind.TASK, "There is no such encoding, or the file is not written in it.", "Omit `encoding` to have it detected, or set it to that of the file, like cp1252."),
    Code("vector.export_source", Kind.TASK, "The rows that were copied out of the database can't be read.", "Run the job again; if it fails again, it is a bug in Anabranch: report it."),
    Code("vector.export_values", Kind.TASK, "A column has values that files of this format can't hold.", "Leave such rows out, make the values null, or leave the format out; the message names the column."),
    Code("vector.export_wrong", Kind.TASK, "A written file does not hold what the table holds, so that it is not published.", "It is a bug in Anabranch, or of the library that wrote the file: report it with the message."),
    Code("vector.format", Kind.TASK, "The file format is not a supported vector format.", "Convert it to a GeoPackage with `ogr2ogr`."),
    Code("vector.geojson", Kind.TASK, "The file is valid JSON, but neither GeoJSON nor TopoJSON.", "Send a GeoJSON FeatureCollection, a feature in each line, or TopoJSON."),
    Code("vector.geopackage", Kind.TASK, "The database is no GeoPackage, or a layer of it is no table.", "Write the file again with `ogr2ogr`."),
    Code("vector.json", Kind.TASK, "The file is not valid JSON, or is nested too deep.", "Write it again; the message has the line and the column."),
    Code("vector.kml", Kind.TASK, "The KML file has no placemarks.", "Send one with placemarks; ground overlays are pictures, and network links are not followed."),
    Code("vector.layer", Kind.TASK, "The file has no layer of this name.", "Set `layer` to one that the message lists."),
    Code("vector.layers", Kind.TASK, "The file has too many layers.", "Set `layer` to one of them, or send them in several files."),
    Code("vector.library", Kind.TASK, "A library can't process the file.", "Rewrite the file with `ogr2ogr -f GPKG` and send that; report a bug if that fails, too."),
    Code("vector.load_mismatch", Kind.TASK, "A loaded table does not hold what was read from the file.", "Submit the job again with `--rerun`; report a bug if that fails, too."),
    Code("vector.mismatch", Kind.TASK, "The content of the file is not what its extension says.", "Give the file the extension of its format, or upload it again."),
    Code("vector.missing", Kind.TASK, "The file is not on the machine.", "Stage it again, then retry."),
    Code("vector.no_features", Kind.TASK, "The layer has no features, or none is left; the message says what was dropped and why.", "Send a layer with features that have geometries."),
    Code("vector.no_geometry", Kind.TASK, "The file or the chosen layer has attributes only.", "Send a file with geometries."),
    Code("vector.no_layer", Kind.NOT_FOUND, "No layer of this name is published.", "Publish it first; `anabranch items list` shows what is published."),
    Code("vector.other_item", Kind.CONFLICT, "The layer belongs to another item than the one that was given.", "Give the collection and the item that the message names."),
    Code("vector.pmtiles_rows", Kind.TASK, "The layer has too many features for PMTiles, whose writing takes some 40 microseconds for each feature and scale.", "Leave pmtiles out of `formats`: `/features` serves tiles of any layer; or raise the setting `vector_pmtiles_max_rows`."),
    Code("vector.rows_lost", Kind.TASK, "Rows were neither written nor reported as dropped.", "It is a bug in Anabranch: report it, with the file if you may."),
    Code("vector.shapefile", Kind.TASK, "A part of a Shapefile was sent alone, or one is missing.", "Send a ZIP archive with the .shp, .shx, .dbf and .prj files."),
    Code("vector.table_lost", Kind.NOT_FOUND, "The table of a job was dropped, a day after the job had ended.", "Submit the job again with `--rerun`."),
    Code("vector.too_large", Kind.TASK, "The file, or a value of it that must be read whole, exceeds a limit.", "Convert it to a GeoPackage with `ogr2ogr`, split it, or raise the limit."),
    Code("vector.values", Kind.TASK, "A column has values that PostgreSQL's type can't hold.", "Fix the values in the source; the message names the column and what is wrong."),
    Code("vector.vertices", Kind.TASK, "A feature has more vertices than allowed.", "Simplify the feature or divide it, or raise the setting `vector_max_vertices`."),
    Code("vector.xml", Kind.TASK, "The file is not valid XML, is nested too deep, or has a document type declaration.", "Fix it; the message has the line. KML and GML need no document type."),
)
