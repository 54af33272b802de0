import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.canonical import Json
from anabranch.workflows.yaml.tree import FileMistake, Position, Tree, TreeError, read_tree

DECIMAL = "Write the number in decimal, without leading zeros and underscores, or quote it if it is text."
BOOLEAN = "Write true or false, or quote it if it is text."
NULL = "Write null or nothing, or quote it if it is text."
QUOTE = "Quote it if it is text."
SMALLER = "Write a smaller number, or quote it if it is text."
WRITE_OUT = "Write the value out in each place."
NO_TAG = "Leave it out; quote what is text."
KEYS = "Write keys and values: 'key: value'."
EXPRESSION = 'Quote an expression: "{{ inputs.name }}".'
CHECK = "Check the indentation, the brackets and the quotes."

ODD_SCALARS = [
    *((word, "a boolean", BOOLEAN) for word in ("yes", "No", "ON", "off", "y", "N", "True", "TRUE", "False", "fALSE")),
    *((word, "null", NULL) for word in ("~", "Null", "NULL")),
    *(
        (number, "a number", DECIMAL)
        for number in (
            "1:30",
            "12:30:45",
            "-1:30",
            "00:30",
            "1:30.5",
            "0o14",
            "0x1F",
            "0b1",
            "-0x1F",
            "0xFF_FF",
            "014",
            "-08",
            "00",
            "01.5",
            "1_000",
            "1_000.5",
            "-1_0",
            ".inf",
            "-.INF",
            ".nan",
            ".NaN",
        )
    ),
    *(
        (date, "a date", QUOTE)
        for date in ("2024-01-01", "2024-1-1", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5 +01:00")
    ),
]

REFUSALS: list[tuple[str | bytes, str, int, int, str]] = [
    *((f"a: {text}", f"{text} may be meant as {what} or as text", 1, 4, hint) for text, what, hint in ODD_SCALARS),
    ("a: [yes]", "yes may be meant as a boolean or as text", 1, 5, BOOLEAN),
    ("on: 1", "on may be meant as a boolean or as text", 1, 1, BOOLEAN),
    ("a: 9223372036854775808", "9223372036854775808 does not fit into 64 bits", 1, 4, SMALLER),
    ("a: -9223372036854775809", "-9223372036854775809 does not fit into 64 bits", 1, 4, SMALLER),
    ("a: " + "9" * 5000, "9" * 37 + "... does not fit into 64 bits", 1, 4, SMALLER),
    ("a: 1e999", "1e999 is too large for a number", 1, 4, SMALLER),
    # Bytes and characters
    (b"a: 1\nb: \xff", "byte 8 (0xff) is not UTF-8", 2, 4, "Save the file as UTF-8."),
    (b"\xef\xbb\xbfa: \xff", "byte 6 (0xff) is not UTF-8", 1, 4, "Save the file as UTF-8."),
    ("a: x\x00", "the character U+0000 is not allowed", 1, 5, "Remove it."),
    ("a: \ud800", "the character U+D800 is not allowed", 1, 4, "Remove it."),
    ("a: \x07", "the character U+0007 is not allowed", 1, 4, 'Remove it, or write "\\u0007" in double quotes.'),
    ("a: \u2028", "the character U+2028 is not allowed", 1, 4, 'Remove it, or write "\\u2028" in double quotes.'),
    ("a: \ufeff", "the character U+FEFF is not allowed", 1, 4, 'Remove it, or write "\\ufeff" in double quotes.'),
    (r'a: "x\ud83d"', "found invalid Unicode character escape code", 1, 8, CHECK),
    (r'a: "x\0"', "this text holds U+0000, which can't be stored", 1, 4, "Leave it out."),
    (r'a: "\x00"', "this text holds U+0000, which can't be stored", 1, 4, "Leave it out."),
    (r'a: "\UFFFFFFFF"', "found invalid Unicode character escape code", 1, 7, CHECK),
    (r'a: "\q"', "found unknown escape character", 1, 5, CHECK),
    ("a" * 1_000_001, "the file has 1,000,001 bytes, more than 1,000,000", 1, 1, "Split it into several files."),
    # What YAML has and we have not
    ("a: &x 1", "anchors and aliases are refused: &x", 1, 4, WRITE_OUT),
    ("a: *x", "anchors and aliases are refused: *x", 1, 4, WRITE_OUT),
    ("a: {<<: 1}", "merge keys (<<) are refused", 1, 5, "Write the keys out in each place."),
    ("a: !!str 1", "tags are refused: !!str", 1, 4, NO_TAG),
    ("a: !x 1", "tags are refused: !x", 1, 4, NO_TAG),
    ("a: !e!x 1", "found undefined tag handle", 1, 4, CHECK),
    ("a: !!python/object:os.system {}", "tags are refused: !!python/object:os.system", 1, 4, NO_TAG),
    ("%YAML 1.2\n---\na: 1", "directives are refused", 1, 1, "Leave this line out."),
    ("a: 1\n---\nb: 1", "a second document begins here", 2, 1, "Keep one document in a file."),
    # Keys
    ("a: 1\nb: 2\n'a': 3", "the key 'a' is already on line 1", 3, 1, "Keep one of them."),
    ("1: a", "the key 1 is a number, not text", 1, 1, "Quote it."),
    ("null: a", "the key null is null, not text", 1, 1, "Quote it."),
    ("true: a", "the key true is a boolean, not text", 1, 1, "Quote it."),
    ("? [a]\n: b", "a key is a mapping or a list, not text", 1, 3, "Write a text as key."),
    ("?\n: a", "a key is missing here", 1, 2, 'Write a key before the colon, or "" for an empty one.'),
    # The whole
    ("", "the file is empty", 1, 1, KEYS),
    ("# only words\n---\n", "the file is empty", 1, 1, KEYS),
    ("\n- a", "the file is a list, not a mapping", 2, 1, KEYS),
    ("words", "the file is text, not a mapping", 1, 1, KEYS),
    ("a: " + "[" * 100_000, "this is nested deeper than 32 levels", 1, 35, "Make it flatter."),
    ("{a: " * 100_000, "this is nested deeper than 32 levels", 1, 129, "Make it flatter."),
    ("- " * 100_000, "this is nested deeper than 32 levels", 1, 65, "Make it flatter."),
    # Syntax
    ("a:\n\tb: 1", "a tab is used to indent", 2, 1, "Indent with spaces."),
    ("a: |\n \tb", "a tab is used to indent", 2, 2, "Indent with spaces."),
    ("a: {{ item }}", "this expression is not quoted", 1, 4, 'Quote it: "{{ inputs.name }}".'),
    ("a: {{ b[0] }}", "did not find expected ',' or '}'", 1, 8, EXPRESSION),
    ("a: 'x", "this quote is never closed", 1, 4, "Close it."),
    ("a: [1,\n", "did not find expected node content", 2, 1, CHECK),
    ("a: [1\n", "did not find expected ',' or ']' while parsing a flow sequence that begins on line 1", 2, 1, CHECK),
    ("a: b: c", "mapping values are not allowed in this context", 1, 5, CHECK),
    ("a: 1\n b: 2", "mapping values are not allowed in this context", 2, 3, CHECK),
    ("a: - b", "block sequence entries are not allowed in this context", 1, 4, CHECK),
    ("a: @b", "found character that cannot start any token", 1, 4, CHECK),
    ("a: {b:}", "found unexpected ':'", 1, 6, CHECK),
    ("a: 1\nb\nc: 2", "this key has no colon", 2, 1, "Put a colon and a space after a key."),
    ('a: "b" c', "did not find expected key", 1, 8, CHECK),
    (
        "a:\n  - 1\n  b: 2",
        "did not find expected '-' indicator while parsing a block collection that begins on line 2",
        3,
        3,
        CHECK,
    ),
    ("a: |#b", "after | or > only +, -, a digit or a comment may follow", 1, 4, "Begin on the next line."),
    ("{a: 1} b", "did not find expected <document start>", 1, 8, CHECK),
]

WORKFLOW = """\
name: Größe "x"
inputs: {n: 5, "q": 'it''s'}
nodes:
  - id: one
    note: |

      first {{ a }}
        second
    empty:
    list: [a, b]
    twice: "tab\\tthen"
    long: words
      that go on
"""


@pytest.mark.parametrize(
    ("text", "message", "line", "column", "hint"),
    REFUSALS,
    ids=lambda part: ascii(part)[:30],
)
def test_g4_a_refusal_says_what_where_and_what_to_do(
    text: str | bytes, message: str, line: int, column: int, hint: str
) -> None:
    with pytest.raises(TreeError) as refused:
        read_tree(text, "flow.yaml")
    assert refused.value.mistakes == (FileMistake("flow.yaml", line, column, message, hint),)
    assert str(refused.value).startswith(f"flow.yaml:{line}:{column}: {message}")


def test_g4_all_mistakes_are_reported_at_once_in_order() -> None:
    with pytest.raises(TreeError) as refused:
        read_tree("%YAML 1.1\n---\na: yes\na: &x 012\n2: !!int '3'\nb: [~, *x]\n", "flow.yaml")
    places = [(mistake.line, mistake.column) for mistake in refused.value.mistakes]
    assert places == [(1, 1), (3, 4), (4, 1), (4, 4), (4, 7), (5, 1), (5, 4), (6, 5), (6, 8)]


def test_a_hundred_mistakes_are_enough() -> None:
    with pytest.raises(TreeError) as refused:
        read_tree("a: [" + "yes, " * 1000 + "]", "flow.yaml")
    assert len(refused.value.mistakes) == 100


def test_too_many_values_are_refused() -> None:
    with pytest.raises(TreeError, match="more than 100,000 values"):
        read_tree("a: [" + "1," * 200_000 + "]", "flow.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("+5", 5),
        ("9223372036854775807", 2**63 - 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("1.2.3", "1.2.3"),
        ("8080:80", "8080:80"),
        ("10 m", "10 m"),
        ("nodata", "nodata"),
        ("'yes'", "yes"),
        ('"012"', "012"),
        ('"\\u0007\\x41\\U0001F600"', "\x07A😀"),
        ("|\n  2024-01-01", "2024-01-01"),
        (">-\n  null\n  and void\n", "null and void"),
        ("'a\tb' #\t", "a\tb"),
        ("\tb", "b"),
        ("{\n\tb?: 1}", {"b?": 1}),
        ("{x: 1, y: 2, n: 3}", {"x": 1, "y": 2, "n": 3}),
        ("[a, b: 1]", ["a", {"b": 1}]),
    ],
)
def test_plain_text_follows_the_core_schema(text: str, value: Json) -> None:
    read = read_tree(f"a: {text}", "flow.yaml").value["a"]
    assert (read, type(read)) == (value, type(value))


def test_a_byte_order_mark_and_any_line_break_are_accepted() -> None:
    tree = read_tree(b"\xef\xbb\xbf---\r\nb: 1\ra: 2\n...\n", "flow.yaml")
    assert list(tree.value.items()) == [("b", 1), ("a", 2)]
    assert (tree.position(("b",)), tree.position(("a",))) == (Position(2, 4), Position(3, 4))


def test_the_position_of_a_path_is_of_its_value_its_key_or_its_nearest_parent() -> None:
    tree = read_tree(WORKFLOW, "flow.yaml")
    assert tree.position(()) == Position(1, 1)
    assert tree.position(("inputs", "q")) == Position(2, 21)
    assert tree.position(("inputs", "q"), of_key=True) == Position(2, 16)
    assert tree.position(("nodes", 0)) == tree.position(("nodes", 0), of_key=True) == Position(4, 5)
    assert tree.position(("nodes", 0, "empty")) == Position(9, 11)
    assert tree.position(("nodes", 0, "list", 1)) == Position(10, 15)
    assert tree.position(("nodes", 0, "absent", "x")) == Position(4, 5)
    assert tree.position(("nodes", 7)) == Position(4, 3)


@pytest.mark.parametrize(
    ("path", "part", "expected"),
    [
        (("name",), '"x"', Position(1, 13)),
        (("inputs", "q"), "t", Position(2, 23)),
        (("inputs", "q"), "s", Position(2, 21)),  # behind a doubled quote: where the text begins
        (("nodes", 0, "note"), "{{", Position(7, 13)),
        (("nodes", 0, "note"), "second", Position(8, 9)),
        (("nodes", 0, "twice"), "b", Position(11, 15)),
        (("nodes", 0, "twice"), "then", Position(11, 12)),
        (("nodes", 0, "long"), "that", Position(12, 11)),
    ],
)
def test_an_offset_in_a_text_has_a_position(path: tuple[str | int, ...], part: str, expected: Position) -> None:
    tree = read_tree(WORKFLOW, "flow.yaml")
    assert tree.position_in(path, _at(tree, path).index(part)) == expected


def test_an_offset_beyond_the_text_is_its_end() -> None:
    tree = read_tree(WORKFLOW, "flow.yaml")
    assert tree.position_in(("nodes", 0, "note"), 999) == Position(8, 15)
    assert tree.position_in(("nodes", 0, "id"), 999) == Position(4, 12)
    assert tree.position_in(("inputs", "n"), 3) == Position(2, 13)


@pytest.mark.parametrize("text", ["a: |", "a: |\n", "a: >\n  b\n", 'a: "\\n"'])
def test_an_offset_that_can_not_be_placed_is_where_the_text_begins(text: str) -> None:
    assert read_tree(text, "flow.yaml").position_in(("a",), 1) == Position(1, 4)


def test_a_large_workflow_is_read_fast() -> None:
    node = "".join(f"    key_{n}: {{a: 1, b: [x, 'y']}}\n" for n in range(19))
    text = "nodes:\n" + "".join(f"  node_{n}:\n{node}" for n in range(500))
    assert _seconds(text) < 1.0


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000])
def test_deep_nesting_is_refused_fast(text: str) -> None:
    assert _seconds(text) < 0.5


PIECES = [
    *"ab1:?-,[]{}#&*!|>'\"%@`\\ \t\n~é",
    *(": ", "- ", "\n  ", "\r\n", "k: ", "'y'", "|\n  t\n", "\n---\n", "yes", "\\u"),
]
SNIPPETS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\0"), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn1: {", max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.text(max_size=200) | st.binary(max_size=200) | SNIPPETS)
@settings(max_examples=300, deadline=None)
def test_whatever_is_given_a_tree_or_a_tree_error_comes_fast(text: str | bytes) -> None:
    assert _seconds(text) < 0.5


@given(st.dictionaries(st.text("abyn1: {", max_size=5), VALUES, max_size=4), st.sampled_from([None, 2]))
@settings(max_examples=200, deadline=None)
def test_json_is_read_as_json_reads_it(value: dict[str, Json], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert read_tree(text, "flow.json").value == value


def _seconds(text: str | bytes) -> float:
    """Of the processor: others may be busy meanwhile."""
    mistakes: tuple[FileMistake, ...] = (FileMistake("flow.yaml", 1, 1, "none"),)
    start = time.process_time()
    try:
        read_tree(text, "flow.yaml")
    except TreeError as error:
        mistakes = error.mistakes
    spent = time.process_time() - start
    assert 1 <= len(mistakes) <= 100
    assert all(mistake.line >= 1 and mistake.column >= 1 for mistake in mistakes)
    return spent


def _at(tree: Tree, path: tuple[str | int, ...]) -> str:
    value: object = tree.value
    for step in path:
        value = value[step]  # type: ignore[index]  # the test names a path that exists
    assert isinstance(value, str)
    return value
