"""Parameters on the command line."""

import io
import json
from pathlib import Path

import pytest

from anabranch.cli.jobs.files import find_file_set
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.errors import AnabranchError, InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('[1, "a"]', [1, "a"]),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ('"5"', "5"),
        ("Hello World", "Hello World"),
        ("", ""),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("5 apples", "5 apples"),
        ("[" * 100_000, "[" * 100_000),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_a_value_is_json_where_it_is_json_and_text_elsewhere(text: str, value: object) -> None:
    assert read_parameters([f"key={text}"], None).values == {"key": value}


@pytest.mark.parametrize("given", [["n"], ["=5"], ["n=1", "n=2"]])
def test_what_is_not_one_value_for_one_key_is_refused(given: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_parameters(given, None).require_readable()
    assert caught.value.code == "parameters.invalid"


@pytest.mark.parametrize("text", ["9" * 5000, f'{{"a": [-{"9" * 5000}]}}'])
def test_a_huge_integer_is_refused_in_words_of_ours(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^n: an integer of 5000 digits is too large$") as caught:
        read_parameters([f"n={text}"], None).require_readable()
    assert caught.value.code == "parameters.invalid"
    file = tmp_path / "params.json"
    file.write_text(f'{{"n": {text}}}')
    with pytest.raises(InputError, match=r"params\.json can't be used: an integer of 5000 digits is too large$"):
        read_parameters([], file)
    assert read_parameters([f'n="{"9" * 5000}"'], None).values == {"n": "9" * 5000}


@pytest.mark.parametrize("text", ["@", "@/nowhere/dem.tif", "@/"])
def test_a_file_to_upload_must_be_there(text: str) -> None:
    with pytest.raises(InputError, match="source: there is no file") as caught:
        read_parameters([f"source={text}"], None).require_readable()
    assert caught.value.code == "parameters.unreadable"


def test_a_folder_or_a_pattern_stands_for_its_files(tmp_path: Path) -> None:
    for name in ("b.tif", "a.tif", "deep/c.tif", ".hidden.tif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for text, names in ((tmp_path, "ab"), (tmp_path / "*.tif", "ab"), (tmp_path / "**" / "*.tif", "abc")):
        found = find_file_set(["n=1", f"source=@{text}"])
        assert found is not None
        assert ([file.stem for file in found.files], found.name, found.others) == (list(names), "source", ["n=1"])
    assert find_file_set([f"source=@{tmp_path}/a.tif", "n=*", "@=*"]) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a=@{0}/*.txt"], "a: .* has no files"),
        (["a=@{0}", "b=@{0}"], "a and b are several files each"),
        (["a=@{0}", "a=1"], "duplicate parameter a"),
    ],
)
def test_files_of_one_parameter_only(given: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tif").touch()
    with pytest.raises(AnabranchError, match=message):
        find_file_set([one.format(tmp_path) for one in given])


def test_text_may_begin_with_an_at(tmp_path: Path) -> None:
    assert read_parameters(['source="@dem.tif"'], None).values == {"source": "@dem.tif"}
    (tmp_path / "dem.tif").touch()
    with pytest.raises(InputError, match="duplicate parameter"):
        read_parameters([f"source=@{tmp_path}/dem.tif", "source=1"], None).require_readable()


def test_a_file_gives_parameters_and_the_command_line_stands_above_it(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"n": 3, "message": "Hi"}')
    assert read_parameters(["n=5"], file).values == {"n": 5, "message": "Hi"}


def test_a_dash_reads_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"n": 3}'))
    assert read_parameters([], Path("-")).values == {"n": 3}


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("p.json", "[1]", "parameters.invalid"),
        ("p.json", "{", "parameters.invalid"),
        ("p.json", '{"n": NaN}', "parameters.invalid"),
        ("p.json", '{"n": 1, "n": 2}', "parameters.invalid"),
        ("p.json", None, "parameters.unreadable"),
        ("p.yaml", "n: 1\nn: 2", "parameters.invalid"),
        ("p.yaml", "[1]", "parameters.invalid"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, name: str, text: str | None, code: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_parameters([], tmp_path / name)
    assert caught.value.code == code


TEXT = {"properties": {"n": {"type": "integer"}, "message": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}


def test_text_stays_text_where_the_workflow_declares_text() -> None:
    parameters = read_parameters(["n=5", "message=5", "more=5"], None)
    assert parameters.as_declared(TEXT) == {"n": 5, "message": "5", "more": 5}


def test_a_value_of_a_file_is_never_turned_into_text(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text(json.dumps({"message": 5}))
    assert read_parameters([], file).as_declared(TEXT) == {"message": 5}


def test_all_that_can_t_be_read_is_reported_at_once() -> None:
    given = ["n", "m=1", "m=2", "source=@/nowhere/dem.tif", f"k={'9' * 5000}"]
    with pytest.raises(InputError) as caught:
        read_parameters(given, None).require_readable()
    words = (
        "'n' is not KEY=VALUE",
        "duplicate parameter m",
        "there is no file '/nowhere/dem.tif'",
        "k: an integer of 5000",
    )
    assert [part for part in words if part not in caught.value.message] == []


def test_parameters_come_from_a_yaml_file_and_above_it_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text("n: 1\nnames: [a, b]\n")
    assert read_parameters(["n=2"], file).values == {"n": 2, "names": ["a", "b"]}


def test_a_field_of_an_answer_that_is_a_string_keeps_its_text() -> None:
    given = read_parameters(["why=5", "approved=true"], None)
    assert given.values == {"why": 5, "approved": True}
    fields = {"properties": {"why": {"type": "string"}, "approved": {"type": "boolean"}}}
    assert given.as_declared(fields) == {"why": "5", "approved": True}
