"""Functions on exported rows that run in a sandbox of their own: its GDAL writes, and opens what it wrote."""

from pathlib import Path

from anabranch.plugins.vector.convert import Progress
from anabranch.plugins.vector.exports.models import ExportedFiles, ExportOptions
from anabranch.plugins.vector.exports.write_exports import write_exports
from anabranch.plugins.vector.in_sandbox import in_sandbox
from anabranch.plugins.vector.reading.drivers import WRITTEN
from anabranch.plugins.vector.reading.ogr import check_drivers

__all__ = ["export"]

check_drivers(WRITTEN)


@in_sandbox("This is a bug in Anabranch, or of the library that writes the format: report it with the message.")
def export(source: Path, folder: Path, options: ExportOptions, *, progress: Progress) -> ExportedFiles:
    """Write the rows of a COPY file in each format, and verify them."""
    return write_exports(source, folder, options, progress)
