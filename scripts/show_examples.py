"""Shows the files of examples in the docs, in the place of links to them, which readers of the repository follow."""

import re

LINK = re.compile(r"^\[`(examples/\S+\.(\w+))`\]\(\.\./\.\./\1\)$", re.MULTILINE)
LANGUAGES = {"py": "python", "toml": "toml", "yaml": "yaml"}


def on_page_markdown(markdown: str, **_: object) -> str:
    """A page with the files of examples, as mkdocs asks for it."""
    return LINK.sub(_show, markdown)


def _show(link: re.Match[str]) -> str:
    file, kind = link.groups()
    if kind not in LANGUAGES:  # a README, of which the commands are shown
        return f'--8<-- "{file}:start"'
    return f'`{file}`:\n\n```{LANGUAGES[kind]}\n--8<-- "{file}"\n```'
