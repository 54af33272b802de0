"""The encoding of text: of a whole file by its bytes, or as a caller gives it."""

import codecs
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.redaction import show_text

__all__ = ["check_encoding", "detect_encoding", "gdal_name", "is_utf8", "warn_of_guess"]

PIECE_BYTES = 2**20
SPECIAL = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})  # not of files
UNDEFINED_IN_CP1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")
GUESS, GUESS_OF_ANY_BYTE = "cp1252", "iso8859-1"
# A field of a fixed width may cut a character in two: so few of them don't speak against UTF-8.
MAX_BROKEN_SHARE = 0.05
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def check_encoding(name: str) -> str:
    """The name that Python has for an encoding of text."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        found = None
    if found is None or not found._is_text_encoding or found.name in SPECIAL:
        raise Permanent(
            f"there is no encoding {show_text(name)!r}",
            code="vector.encoding",
            remedy="Set `encoding` to utf-8, cp1252, latin-1, or another name that Python knows; or omit it.",
        )
    return found.name


def detect_encoding(path: Path, *, start: int = 0, fields: bool = False) -> str:
    """UTF-8 if the bytes of a file are valid in it, else cp1252, or Latin-1 if that has no such bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    valid = codecs.getincrementaldecoder("utf-8")("ignore")
    used: set[int] = set()
    broken = others = 0
    with path.open("rb") as file:
        file.seek(start)
        while piece := file.read(PIECE_BYTES):
            if not start and not others and file.tell() == len(piece):
                for mark, name in _BOMS.items():
                    if piece.startswith(mark):
                        return name
            text = decoder.decode(piece)
            written = valid.decode(piece).count("\ufffd")  # the replacement character is also one that may be written
            if not text.isascii():
                broken += text.count("\ufffd") - written
                others += sum(letter > "\x7f" for letter in text) if fields else 1
                used |= UNDEFINED_IN_CP1252 & set(piece)
    broken += len(decoder.decode(b"", final=True))
    if broken <= (others * MAX_BROKEN_SHARE if fields else 0):
        return "utf-8"
    return GUESS_OF_ANY_BYTE if used else GUESS


def warn_of_guess(layer: str, encoding: str) -> tuple[str, ...]:
    """What to say of an encoding that `detect_encoding` returned, where the bytes don't prove it."""
    if encoding not in (GUESS, GUESS_OF_ANY_BYTE):
        return ()
    controls = " This is almost certainly wrong: control characters come out." if encoding == GUESS_OF_ANY_BYTE else ""
    guess = f"The texts of the layer {layer} are not in UTF-8, and {encoding} was guessed.{controls}"
    return (f"{guess} If letters are wrong, set `encoding`, like cp1251.",)


def is_utf8(path: Path, *, start: int) -> bool:
    """Whether a file has letters beyond ASCII, and all of them in UTF-8, which hardly happens by accident."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    plain = True
    with path.open("rb") as file:
        file.seek(start)
        try:
            while piece := file.read(PIECE_BYTES):
                plain = decoder.decode(piece).isascii() and plain
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return not plain


def gdal_name(encoding: str) -> str:
    """How GDAL calls an encoding of Python's."""
    if encoding.startswith("iso8859"):
        return f"ISO-8859-{encoding.rpartition('-')[2]}"
    return encoding.removesuffix("-sig").upper()
