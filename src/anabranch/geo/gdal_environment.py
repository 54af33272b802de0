"""The environment of a process in which GDAL opens untrusted files (S4); nothing here imports GDAL."""

from collections.abc import Collection

__all__ = ["CACHE_DIVISOR", "closed_environment"]

# The drivers that GDAL 3.10 to 3.12 have in the wheels of rasterio and pyogrio, and those that other builds have.
# A build ignores names that it does not know; `check_drivers` of a plugin reports drivers that are not listed here.
_KNOWN = """
AAIGrid, ACE2, ADBC, ADRG, AIG, AirSAR, AIVector, AmigoCloud, ARG, Arrow, AVCBin, AVCE00, AVIF, BAG, BASISU, BIGGIF,
BLX, BMP, BNA, BSB, BT, BYN, CAD, CALS, Carto, CEOS, CLOUDANT, COASP, COG, COSAR, CouchDB, CPG, CSV, CSW, CTable2,
CTG, DAAS, DDS, DERIVED, DGN, DIMAP, DIPEx, DODS, DOQ1, DOQ2, DTED, DWG, DXF, ECRGTOC, ECW, EDIGEO, EEDA, EEDAI,
EHdr, EIR, ELAS, ElasticSearch, Elasticsearch, ENVI, EPSILON, ERS, ESAT, ESRI Shapefile, ESRIC, ESRIJSON, EXR, FAST,
FileGDB, FIT, FITS, FlatGeobuf, GDALG, GenBin, Geoconcept, GeoJSON, GeoJSONSeq, GEOR, GeoRaster, GeoRSS, GFF, GIF,
GML, GMLAS, GMT, GNMDatabase, GNMFile, GPKG, GPSBabel, GPX, GRASS, GRASSASCIIGrid, GRIB, GS7BG, GSAG, GSBG, GSC,
GTFS, GTI, GTiff, GTX, GXF, HANA, HDF4, HDF4Image, HDF5, HDF5Image, HEIF, HF2, HFA, HTTP, IDA, IDB, Idrisi,
IGNFHeightASCIIGrid, ILWIS, INGR, Interlis_1, Interlis_2, IRIS, ISCE, ISG, ISIS2, ISIS3, JAXAPALSAR, JDEM, JML,
JP2ECW, JP2KAK, JP2MrSID, JP2OpenJPEG, JPEG, JPEGLS, JPEGXL, JPIPKAK, JSONFG, KEA, KML, KMLSUPEROVERLAY, KRO, KTX2,
L1B, LAN, LCP, Leveller, LIBERTIFF, LIBKML, LOSLAS, LVBAG, MAP, MapInfo File, MapML, MBTiles, MEM, Memory, MFF,
MFF2, MiraMonRaster, MiraMonVector, MongoDBv3, MRF, MrSID, MSGN, MSSQLSpatial, MVT, MySQL, NAS, NDF, netCDF,
NGSGEOID, NGW, NITF, NOAA_B, NSIDCbin, NTv2, NWT_GRC, NWT_GRD, OAPIF, OCI, ODBC, ODS, OGCAPI, OGR_GMT, OGR_PDS,
OGR_SDTS, OGR_VRT, OpenFileGDB, OSM, OZI, Parquet, PAux, PCIDSK, PCRaster, PDF, PDS, PDS4, PGDUMP, PGDump, PGEO,
PGeo, PLMOSAIC, PLSCENES, PMTiles, PNG, PNM, PostGISRaster, PostgreSQL, PRF, R, Rasterlite, RCM, RDB, REC, RIK, RMF,
ROI_PAC, RPFTOC, RRASTER, RS2, RST, S102, S104, S111, S57, SAFE, SAGA, SAP_HANA, SAR_CEOS, SDE, SDTS, Selafin,
SENTINEL2, SGI, SIGDEM, SNAP_TIFF, SNODAS, SOSI, SQLite, SRP, SRTMHGT, STACIT, STACTA, SVG, SXF, Terragen, TGA,
TIGER, TIL, TileDB, TopoJSON, TSX, UK .NTF, USGSDEM, VDV, VFK, VICAR, VRT, WAsP, WCS, WEBP, WFS, WMS, WMTS, XLS,
XLSX, XODR, XPLANE, XPM, XYZ, Zarr, ZMap
"""
CACHE_DIVISOR = 4


def closed_environment(allowed: Collection[str], memory_mb: int) -> dict[str, str]:
    """The environment in which GDAL has these drivers only, and no network; to be set before GDAL is first used."""
    closed = "http://127.0.0.1:9"  # nothing listens on the discard port: a second barrier behind the missing network
    known = (name.strip() for name in _KNOWN.replace("\n", " ").split(", "))
    return {
        "GDAL_SKIP": ",".join(name for name in known if name not in allowed),
        "GDAL_DRIVER_PATH": "disable",
        "GDAL_PAM_ENABLED": "NO",
        "GDAL_MEM_ENABLE_OPEN": "NO",
        "GDAL_VRT_ENABLE_PYTHON": "NO",
        "GDAL_VRT_ENABLE_RAWRASTERBAND": "NO",
        "GDAL_CACHEMAX": str(max(32, memory_mb // CACHE_DIVISOR)),  # in MB, only in this variable
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
