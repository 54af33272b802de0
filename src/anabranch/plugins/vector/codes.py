"""The error codes of vectors."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("vector.export_source", Kind.TASK, "The rows that were copied out of the database can't be read.", "Run the job again; if it fails again, it is a bug in Anabranch: report it."),
    Code("vector.export_values", Kind.TASK, "A column has values that files of this format can't hold.", "Leave such rows out, make the values null, or leave the format out; the message names the column."),
    Code("vector.export_wrong", Kind.TASK, "A written file does not hold what the table holds, so that it is not published.", "It is a bug in Anabranch, or of the library that wrote the file: report it with the message."),
    Code("vector.values", Kind.TASK, "A column has values that PostgreSQL's type can't hold.", "Fix the values in the source; the message names the column and what is wrong."),
)
