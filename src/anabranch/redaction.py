"""What messages may show of texts that others wrote: no secrets, and only what can be printed."""

import re
from collections.abc import Callable

__all__ = ["KEY", "TOKEN", "hide_query", "hide_secrets", "show_text"]

Found = re.Match[str]
MAX_TEXT_CHARS = 80

KEY = re.compile(r"anb_([0-9a-f]{12})_([0-9a-f]{64})")
# The claims and the signature of a JSON Web Token; what comes before them is not secret.
TOKEN = re.compile(r"\.eyJ[A-Za-z0-9_-]++\.[A-Za-z0-9_-]{16,}+")
# All of these take linear time: a handler's text may be long, and untrusted.
URL = re.compile(r"(https?)?://((?:(?!://)\S)+)", re.IGNORECASE)
PORT = re.compile(r"\d{1,5}[/?#,]")
PLACE = re.compile(r"[/?#\[]")
NAME = r"(?:pass(?:word|wd|phrase)|pwd|(?<![a-z])sig|signature|token|secret|(?:account|access|api)[-_]?key)"
QUOTED = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
# With a space before `=` it is code: `token = read()`.
NAMED = re.compile(rf"({NAME}(?:=(?!=)|['\"]: ?(?=['\"])))(?:{QUOTED}|['\"]?[^\s&;'\"]+)", re.IGNORECASE | re.DOTALL)
HEADER = re.compile(r"(\bBearer |(?i:\bauthorization['\"]?: ?['\"]?[a-z]{1,20} ))[^\s'\"]+")


def hide_secrets(text: str) -> str:
    """The text without secrets of known shapes: keys, tokens, users' parts of URLs, `password=…`, `Bearer …` (S5)."""
    for pattern, hide in HIDDEN:
        text = pattern.sub(hide, text)
    return text


def hide_query(url: str) -> str:
    """A URL with `…` for each value of its query; what has no name is a value."""
    rest, mark, query = url.partition("?")
    named = (pair.partition("=") for pair in query.split("&"))
    return rest + mark + "&".join(f"{name}=…" if equals else "…" for name, equals, _ in named) if mark else url


def show_text(text: str) -> str:
    """A text of a file or a caller as messages may have it: printable, and not long."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[: MAX_TEXT_CHARS + 1])
    return plain if len(plain) <= MAX_TEXT_CHARS else plain[: MAX_TEXT_CHARS - 1] + "…"


def _hide_user(found: Found) -> str:
    """A URL without its password; by HTTP the name alone may be a token."""
    http, rest = found[1], found[2]
    before, _, after = rest.rpartition("@")
    user, colon, password = before.partition(":")
    # A password may hold whatever URLs should not: `/`, `@`. What follows a host is no password.
    if colon and not PLACE.search(user) and not PORT.match(password):
        return f"{http}://***@{after}" if http else f"://{user}:***@{after}"
    end = place.start() if (place := PLACE.search(rest)) else len(rest)
    token, _, host = rest[:end].rpartition("@")
    return f"{http}://***@{host}{rest[end:]}" if http and token else found[0]


HIDDEN: tuple[tuple[re.Pattern[str], str | Callable[[Found], str]], ...] = (
    (KEY, r"anb_\1_***"),
    (TOKEN, ".***"),
    (URL, _hide_user),
    (NAMED, r"\1***"),
    (HEADER, r"\1***"),
)
