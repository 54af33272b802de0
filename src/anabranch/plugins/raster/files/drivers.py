"""The GDAL drivers that may be loaded, and an environment that skips all others (S4); nothing here imports GDAL."""

__all__ = ["ALLOWED", "CONVERTED", "READABLE", "SKIPPED", "gdal_environment"]

# Formats of untrusted files that every step reads as they are: they store their georeference inside the file and refer
# to no other file. GTiff: most uploads. JP2OpenJPEG: satellite scenes. A GDAL build ignores the names it does not have.
READABLE = ("GTiff", "JP2OpenJPEG")
# Formats that are first converted to a GeoTIFF, in a sandbox that can read no other file, whatever the first one names.
CONVERTED = ("netCDF", "HDF5", "HDF5Image", "GRIB", "HFA", "AAIGrid", "DTED", "PNG", "JPEG")
# Warping adds the VRT driver to its own process, so every file is also opened with one named driver.
# Drivers for our own work: COG writes, MEM and Memory hold masks during vectorization.
ALLOWED = frozenset({*READABLE, *CONVERTED, "COG", "MEM", "Memory"})

# The drivers that GDAL 3.10 and 3.12 have in rasterio's wheels, and those that other builds of them have.
# A build ignores names that it does not know; `check_drivers` reports drivers that are not listed here.
_KNOWN = """
ACE2, ADBC, ADRG, AIG, AirSAR, AIVector, AmigoCloud, ARG, Arrow, AVCBin, AVCE00, AVIF, BAG, BASISU, BIGGIF,
BLX, BMP, BNA, BSB, BT, BYN, CAD, CALS, Carto, CEOS, CLOUDANT, COASP, COSAR, CouchDB, CPG, CSV, CSW, CTable2,
CTG, DAAS, DDS, DERIVED, DGN, DIMAP, DIPEx, DODS, DOQ1, DOQ2, DWG, DXF, ECRGTOC, ECW, EDIGEO, EEDA, EEDAI,
EHdr, EIR, ELAS, Elasticsearch, ElasticSearch, ENVI, EPSILON, ERS, ESAT, ESRI Shapefile, ESRIC, ESRIJSON, EXR,
FAST, FileGDB, FIT, FITS, FlatGeobuf, GDALG, GenBin, Geoconcept, GeoJSON, GeoJSONSeq, GEOR, GeoRaster, GeoRSS,
GFF, GIF, GML, GMLAS, GMT, GNMDatabase, GNMFile, GPKG, GPSBabel, GPX, GRASS, GRASSASCIIGrid, GS7BG, GSAG,
GSBG, GSC, GTFS, GTI, GTX, GXF, HANA, HDF4, HDF4Image, HEIF, HF2, HTTP, IDA, IDB, Idrisi, IGNFHeightASCIIGrid,
ILWIS, INGR, Interlis_1, Interlis_2, IRIS, ISCE, ISG, ISIS2, ISIS3, JAXAPALSAR, JDEM, JML, JP2ECW, JP2KAK,
JP2MrSID, JPEGLS, JPEGXL, JPIPKAK, JSONFG, KEA, KML, KMLSUPEROVERLAY, KRO, KTX2, L1B, LAN, LCP, Leveller,
LIBERTIFF, LIBKML, LOSLAS, LVBAG, MAP, MapInfo File, MapML, MBTiles, MFF, MFF2, MiraMonRaster, MiraMonVector,
MongoDBv3, MRF, MrSID, MSGN, MSSQLSpatial, MVT, MySQL, NAS, NDF, NGSGEOID, NGW, NITF, NOAA_B, NSIDCbin, NTv2,
NWT_GRC, NWT_GRD, OAPIF, OCI, ODBC, ODS, OGCAPI, OGR_GMT, OGR_PDS, OGR_SDTS, OGR_VRT, OpenFileGDB, OSM, OZI,
Parquet, PAux, PCIDSK, PCRaster, PDF, PDS, PDS4, PGDump, PGEO, PGeo, PLMOSAIC, PLSCENES, PMTiles, PNM,
PostGISRaster, PostgreSQL, PRF, R, Rasterlite, RCM, RDB, REC, RIK, RMF, ROI_PAC, RPFTOC, RRASTER, RS2, RST,
S102, S104, S111, S57, SAFE, SAGA, SAP_HANA, SAR_CEOS, SDE, SDTS, Selafin, SENTINEL2, SGI, SIGDEM, SNAP_TIFF,
SNODAS, SOSI, SQLite, SRP, SRTMHGT, STACIT, STACTA, SVG, SXF, Terragen, TGA, TIGER, TIL, TileDB, TopoJSON,
TSX, UK .NTF, USGSDEM, VDV, VFK, VICAR, VRT, WAsP, WCS, WEBP, WFS, WMS, WMTS, XLS, XLSX, XODR, XPLANE, XPM,
XYZ, Zarr, ZMap
"""
SKIPPED = tuple(name.strip() for name in _KNOWN.replace("\n", " ").split(", "))
CACHE_DIVISOR = 4


def gdal_environment(memory_mb: int = 1024, threads: int = 0) -> dict[str, str]:
    """The environment of a process that opens untrusted rasters; to be set before GDAL is first used."""
    closed = "http://127.0.0.1:9"  # nothing listens on the discard port: a second barrier behind the missing network
    return {
        "GDAL_SKIP": ",".join(SKIPPED),
        "GDAL_DRIVER_PATH": "disable",
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_PAM_ENABLED": "NO",
        "GDAL_GEOREF_SOURCES": "INTERNAL",
        "GDAL_MEM_ENABLE_OPEN": "NO",
        "GRIB_NORMALIZE_UNITS": "NO",  # else temperatures become degrees Celsius
        "HDF5_USE_FILE_LOCKING": "FALSE",  # a source is read-only
        "GDAL_VRT_ENABLE_PYTHON": "NO",
        "GDAL_VRT_ENABLE_RAWRASTERBAND": "NO",
        "GDAL_CACHEMAX": str(max(32, memory_mb // CACHE_DIVISOR)),  # in MB, only in this variable
        "GDAL_NUM_THREADS": str(threads) if threads else "ALL_CPUS",
        "GDAL_HTTP_PROXY": closed,
        "GDAL_HTTPS_PROXY": closed,
        "http_proxy": closed,
        "https_proxy": closed,
        "all_proxy": closed,
        "no_proxy": "",
        "GDAL_HTTP_TIMEOUT": "1",
        "GDAL_HTTP_CONNECTTIMEOUT": "1",
        "GDAL_HTTP_MAX_RETRY": "0",
        "CPL_CURL_ENABLE_VSIMEM": "NO",
        "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
        "CPL_VSIL_CURL_USE_HEAD": "NO",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CPL_GCE_SKIP": "YES",
        "CPL_MACHINE_IS_GCE": "NO",
        "PROJ_NETWORK": "OFF",
        "CPL_DEBUG": "OFF",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # What glibc itself would choose after a while: it keeps the memory of arrays for the next ones.
        "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
        "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
    }
