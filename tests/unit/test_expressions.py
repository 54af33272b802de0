"""The expression language: what it reads, what it gives, and what it says when it refuses."""

import pickle

import pytest

from anabranch.canonical import Json
from anabranch.workflows.expressions import ExpressionError, Missing, Reference, evaluate, parse, references, walk

DATA: dict[str, Json] = {
    "inputs": {"n": 5, "half": 0.5, "name": "Île", "list": [1, "a", None], "none": None, "yes": True, "odd key": 1},
    "nodes": {"scan": {"output": {"files": [{"name": "a.tif"}, {"name": "b.tif"}], "kind": "raster"}}},
    "item": {"k": "v", "in": 1},
    "index": 3,
    "job": {"id": "j1"},
}


def resolve(reference: Reference) -> Json:
    return walk(DATA[reference.root], reference.path, reference)


def value(text: str) -> Json:
    return evaluate(parse(text), resolve)


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as error:
        value(text)
    return error.value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("5", 5),
        ("-5", -5),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("'it'", "it"),
        (r"'it\'s'", "it's"),
        (r'"a\n\t\"\\\/\u00e9"', 'a\n\t"\\/é'),
        ("true", True),
        ("false", False),
        ("null", None),
        ("[]", []),
        ("[1, 'a', [true, null]]", [1, "a", [True, None]]),
        ("  ( 5 ) ", 5),
    ],
)
def test_literals_are_json_values(text: str, wanted: Json) -> None:
    assert repr(value(text)) == repr(wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("inputs.n", 5),
        ('inputs["odd key"]', 1),
        ("nodes.scan.output.files[0].name", "a.tif"),
        ("nodes.scan.output.files[-1].name", "b.tif"),
        ("nodes.scan.output.kind", "raster"),
        ("item", {"k": "v", "in": 1}),
        ("item.k", "v"),
        ("item.in", 1),
        ("index", 3),
        ("job.id", "j1"),
    ],
)
def test_references_are_followed_through_objects_and_lists(text: str, wanted: Json) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs.typo", "inputs.typo is missing: inputs has no 'typo'"),
        ("item.k.z", "item.k.z is missing: item.k is not an object"),
        ("item[0]", "item[0] is missing: item is not an array"),
        ("inputs.none.z", "inputs.none.z is missing: inputs.none is null"),
        ("nodes.scan.output.files[2]", "nodes.scan.output.files[2] is missing: nodes.scan.output.files has 2 items"),
        ("nodes.scan.output.files[-3]", "nodes.scan.output.files[-3] is missing: nodes.scan.output.files has 2 items"),
        ('inputs["no key"].z', "inputs[\"no key\"].z is missing: inputs has no 'no key'"),
    ],
)
def test_g8_what_is_missing_is_an_error_that_names_it_and_how_far_the_path_got(text: str, message: str) -> None:
    with pytest.raises(Missing) as error:
        value(f"length({text})")
    assert str(error.value) == error.value.message == message
    assert error.value.offset == len("length(")


def test_g8_missing_without_a_reason_still_names_the_reference() -> None:
    assert Missing(Reference("inputs", ("x",))).message == "inputs.x is missing"


def test_g8_one_item_is_one_item() -> None:
    with pytest.raises(Missing, match=r"^item\[1\] is missing: item has 1 item$"):
        walk([0], [1], Reference("item", (1,)))


@pytest.mark.parametrize("text", ["inputs.typo?", "item.k.z?", "item[0]?", "inputs.none.z?", "inputs.none?"])
def test_g8_an_optional_reference_is_null_where_it_is_missing(text: str) -> None:
    assert value(text) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("default(inputs.typo, 7)", 7),
        ("default(inputs.none, 7)", 7),
        ("default(inputs.n, 7)", 5),
        ("default(inputs.typo?, 7)", 7),
        ("default(false, true)", False),
        ("default(default(inputs.a, inputs.b), 7)", 7),
        ("default(length(inputs.typo), 7)", 7),
        ("length('Île')", 3),
        ("length(inputs.list)", 3),
        ("length(item)", 2),
        ("join(['a', 1, 0.5, true, null], '-')", "a-1-0.5-true-null"),
        ("join([], '-')", ""),
        ("lower(inputs.name)", "île"),
        ("upper('straße')", "STRASSE"),
        ("basename('a/b/c.tif')", "c.tif"),
        ("basename('a/b/')", "b"),
        ("basename('a/what?.tif')", "what?.tif"),
        ("basename('https://host/a/b.tif?sig=x/y#z')", "b.tif"),
        ("basename('s3://bucket')", "bucket"),
        ("basename('s3://')", ""),
        ("basename('')", ""),
        ("stem('a/b.c/dem.tar.gz')", "dem.tar"),
        ("stem('s3://raw/dem.tif?sig=a.b')", "dem"),
        ("stem('.hidden')", ".hidden"),
        ("extension('a.b/dem')", ""),
        ("extension('dem.TIF')", ".TIF"),
        ("split('a,b,', ',')", ["a", "b", ""]),
        ("at(split(inputs.name, 'l'), -1)", "e"),
        ("replace('a-b-c', '-', '')", "abc"),
        ("trim('  a b \\n')", "a b"),
        ("integer(' -07 ')", -7),
        ("integer(2.0)", 2),
        ("min(inputs.n, 2.5)", 2.5),
        ("max(inputs.n, 2.5)", 5),
        ("range(3)", [0, 1, 2]),
        ("range(-1, 1)", [-1, 0]),
        ("range(1, -1)", []),
        ("format('{} of {}', index, 'x')", "3 of x"),
        ("format('{1}{0}{1}', 'a', 2)", "2a2"),
        ("format('plain }')", "plain }"),
        ("format('{}', '{}{0}')", "{}{0}"),
    ],
)
def test_functions(text: str, wanted: Json) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("inputs.n + 1", 6),
        ("inputs.n-1", 4),
        ("inputs.n -1", 4),
        ("10 - 3 - 2", 5),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("-inputs.n * -2", 10),
        ("- -5", 5),
        ("inputs.n + 1 > 2 * index - 1", True),
        ("-9223372036854775808 + 0", -(2**63)),
    ],
)
def test_arithmetic_of_whole_numbers(text: str, wanted: Json) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("index // 0", 9, "division by zero"),
        ("1 % (2 - 2)", 7, "division by zero"),
        ("9223372036854775807 + 1", 20, "a whole number has more than 64 bits"),
        ("4294967296 * 4294967296 - 1", 11, "a whole number has more than 64 bits"),
        ("9223372036854775808 - 1", 0, "a whole number has more than 64 bits"),
        ("1 + 0.5", 4, "+ takes an integer, not a number"),
        ("'a' + 'b'", 0, "+ takes an integer, not a string"),
        ("1 - true", 4, "- takes an integer, not a boolean"),
        ("range(1000001)", 0, "it would build more than 1,000,000 items"),
        ("[range(600000), range(600000)]", 16, "it would build more than 1,000,000 items"),
        ("split('a', '')", 0, "split needs a separator"),
        ("replace('a', '', 'b')", 0, "replace needs a text to look for"),
        ("at([1], 1)", 0, "there is no item 1: the array has 1"),
        ("integer('1.5')", 0, "'1.5' is not a whole number"),
        ("integer('99999999999999999999')", 0, "'99999999999999999999' is not a whole number"),
    ],
)
def test_what_can_not_be_computed_is_an_error(text: str, offset: int, message: str) -> None:
    error = refusal(text)
    assert (error.message, error.offset) == (message, offset)


def test_a_replacement_is_measured_before_it_is_built() -> None:
    with pytest.raises(ExpressionError, match="more than 1,000,000 characters"):
        evaluate(parse("replace(item, 'a', item)"), lambda _: "a" * 5_000)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 == 1.0", True),
        ("1 == true", False),
        ("1 == '1'", False),
        ("1 != '1'", True),
        ("null == null", True),
        ("[1, [true]] == [1.0, [true]]", True),
        ("[1] == [true]", False),
        ("[1] == [1, 1]", False),
        ("[] == null", False),
        ("item == item", True),
        ("item == nodes.scan.output", False),
        ("1 < 1.5", True),
        ("2 <= 1", False),
        ("'Z' < 'a'", True),
        ("'a' >= 'a'", True),
        ("2 > 1", True),
        ("'a' in inputs.list", True),
        ("true in [1]", False),
        ("null not_in [1]", True),
        ("inputs.list contains 1.0", True),
        ("'abc' contains 'bc'", True),
        ("inputs.name starts_with 'Î'", True),
        ("'a.tif' ends_with '.tif'", True),
        ("inputs.typo? is_null", True),
        ("inputs.n is_not_null", True),
        ("not 1 == 2", True),
        ("true or false and false", True),
        ("(true or false) and false", False),
        ("not true or true", True),
        ("not not true", True),
        ("false and inputs.typo", False),
        ("true or inputs.typo", True),
        ("(1 < 2) == true", True),
    ],
)
def test_comparisons_and_conditions(text: str, wanted: bool) -> None:
    assert value(text) is wanted


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("1 < 'a'", 2, "< takes two numbers or two strings, not an integer and a string"),
        ("true >= 0.5", 5, ">= takes two numbers or two strings, not a boolean and a number"),
        ("inputs.none > 1", 12, "> takes two numbers or two strings, not null and an integer"),
        ("1 in 1", 2, "in takes a value and an array, not an integer and an integer"),
        ("'abc' contains 1", 6, "contains takes an array and a value, or two strings, not a string and an integer"),
        ("'a' starts_with null", 4, "starts_with takes two strings, not a string and null"),
        ("true and 1", 9, "and takes a boolean, not an integer"),
        ("inputs.name or true", 0, "or takes a boolean, not a string"),
        ("not []", 4, "not takes a boolean, not an array"),
        ("length(5)", 7, "length takes a string or an array or an object, not an integer"),
        ("join('a', '-')", 5, "join takes an array, not a string"),
        ("join([], 1)", 9, "join takes a string, not an integer"),
        ("lower(item)", 6, "lower takes a string, not an object"),
        ("join([[]], '')", 0, "an array can't be part of a text"),
        ("format('{}', item)", 13, "an object can't be part of a text"),
    ],
)
def test_a_wrong_type_is_refused_never_coerced(text: str, offset: int, message: str) -> None:
    error = refusal(text)
    assert (error.message, error.offset) == (message, offset)


NEVER_CLOSED = "the quote is never closed"
PARTS = "Only a reference has parts, and its ? comes last."
FUNCTIONS = (
    "The functions are default, length, min, max, range, at, integer, join, split, replace, trim, lower, upper,"
    " basename, stem, extension and format."
)
BEGINNINGS = "A reference begins with inputs, nodes, item, index or job; text needs quotes."


@pytest.mark.parametrize(
    ("text", "offset", "message", "hint"),
    [
        ("", 0, "the expression is empty", ""),
        (" ", 1, "the expression is empty", ""),
        ("'abc", 0, NEVER_CLOSED, ""),
        ('1 == "', 5, NEVER_CLOSED, ""),
        (r"'a\'", 0, NEVER_CLOSED, ""),
        (r"'a\q'", 2, r"unknown escape \q", r"Use \\ \/ \' \" \b \f \n \r \t, or \u and four hex digits."),
        (r"'\u00g0'", 1, r"unknown escape \u", r"Use \\ \/ \' \" \b \f \n \r \t, or \u and four hex digits."),
        (r"'\u0000'", 1, r"\u0000 can't be stored", ""),
        (r"'\ud83d'", 1, r"\ud83d can't be stored", "Write a character beyond U+FFFF as itself."),
        ("007", 0, "'007' is not a number", "Write numbers as JSON does."),
        ("1+1", 0, "'1+1' is not a number", "Write a blank before + and -, or quote text."),
        ("2026-11-12", 0, "'2026-11-12' is not a number", "Write a blank before + and -, or quote text."),
        ("1e999", 0, "the number is too large", ""),
        ("1 = 1", 2, "unexpected '='", "Write == to compare."),
        ("!true", 0, "unexpected '!'", "Write not, or != to compare."),
        ("true && true", 5, "unexpected '&'", "Write and."),
        ("true | true", 5, "unexpected '|'", "Write or."),
        ("index / 2", 6, "unexpected '/'", "Write // to divide: the result is a whole number."),
        ("index ** 2", 7, "expected a value, found '*'", ""),
        ("1 +", 3, "expected a value, found the end", ""),
        ("range(1, 2, 3)", 0, "range takes 1 or 2 arguments, not 3", ""),
        ("{{ 1 }}", 0, "unexpected '{'", "Write the expression without braces inside it."),
        ("1 }}", 2, "unexpected '}}'", ""),
        ("item.a-b", 7, "nothing is called 'b'", 'A key that is no plain word is written ["a-b"].'),
        ("größe", 2, "unexpected 'ö'", ""),
        ("1 2", 2, "unexpected '2'", ""),
        ("1 not in [1]", 2, "unexpected 'not'", "Write not_in."),
        ("item is null", 5, "unexpected 'is'", "Write is_null or is_not_null."),
        ("5?", 1, "unexpected '?'", "Only a reference may be optional, and its ? comes last."),
        ("item?.k", 5, "unexpected '.'", PARTS),
        ("'a'[0]", 3, "unexpected '['", PARTS),
        ("1 ==", 4, "expected a value, found the end", ""),
        ("and true", 0, "expected a value, found 'and'", ""),
        ("== 5", 0, "expected a value, found '=='", ""),
        ("(1", 2, "expected ')', found the end", ""),
        ("(item is null)", 6, "expected ')', found 'is'", "Write is_null or is_not_null."),
        ("[1 2]", 3, "expected ',' or ']', found '2'", ""),
        ("lower('a'", 9, "expected ',' or ')', found the end", ""),
        ("[1,]", 3, "expected a value, found ']'", ""),
        ("1 < 2 < 3", 6, "comparisons can't be chained", "Join them with and."),
        ("lenght('a')", 0, "there is no function 'lenght'", "Did you mean length?"),
        ("eval('1')", 0, "there is no function 'eval'", FUNCTIONS),
        ("lower", 0, "lower is a function", "Write lower(…)."),
        ("input.x", 0, "nothing is called 'input'", "Did you mean inputs?"),
        ("True", 0, "nothing is called 'True'", "Did you mean true?"),
        ("__class__", 0, "nothing is called '__class__'", BEGINNINGS),
        ("length()", 0, "length takes 1 argument, not 0", ""),
        ("join([])", 0, "join takes 2 arguments, not 1", ""),
        ("inputs", 0, "inputs needs a name after it", "Write inputs.x."),
        ("inputs[0]", 0, "inputs needs a name after it", "Write inputs.x."),
        ("nodes", 0, "nodes needs a name after it", "Write nodes.x.output."),
        ("nodes.a", 0, "of a node only its output can be used", "Write nodes.a.output."),
        ("nodes.a.b[0]", 0, "of a node only its output can be used", "Write nodes.a.output.b[0]."),
        ("nodes.a.outputs.b", 0, "of a node only its output can be used", "Write nodes.a.output.b."),
        ("index.x", 0, "index is a number and has no parts", ""),
        ("job.state", 0, "of a job only its id, its ending and the times of its tick can be used", "Write job.id."),
        ("item.0", 5, "expected a name after the dot, found '0'", "Write [0]."),
        ("item.", 5, "expected a name after the dot, found the end", ""),
        ("item[k]", 5, "expected a whole number or a quoted key, found 'k'", "Quote a key."),
        ("item[1.5]", 5, "expected a whole number or a quoted key, found '1.5'", "Quote a key."),
        ("item[0", 6, "expected ']', found the end", ""),
        ("format()", 0, "format begins with a quoted text", "Write format('{} of {}', a, b)."),
        ("format(item.k)", 0, "format begins with a quoted text", "Write format('{} of {}', a, b)."),
        ("format('{}')", 0, "format has no argument for {0}", "They are counted from 0."),
        ("format('{1}', 1)", 0, "format has no argument for {1}", "They are counted from 0."),
        ("format('a', 1)", 0, "format has no place for argument {0}", ""),
        ("format('{} {0}', 1)", 7, "format mixes {} with {0}", "Number all of them, or none."),
        (
            "format('{x}', 1)",
            7,
            "a { in format's text must begin {} or {0}",
            "Give a brace as an argument: format('{}', '{').",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_a_way_out(text: str, offset: int, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert (error.value.message, error.value.offset, error.value.hint) == (message, offset, hint)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("fits", "exceeds", "message"),
    [
        ("1" + " " * 1999, "1" + " " * 2000, "the expression is longer than 2,000 characters"),
        ("(" * 32 + "1" + ")" * 32, "(" * 33 + "1" + ")" * 33, "the expression is nested deeper than 32 levels"),
        ("not " * 32 + "true", "not " * 33 + "true", "the expression is nested deeper than 32 levels"),
        (
            f"[{','.join(['1<1'] * 333)}]",
            f"[{','.join(['1<1'] * 334)}]",
            "the expression takes more than 1,000 steps",
        ),
    ],
    ids=["length", "depth", "depth of not", "steps"],
)
def test_s2_length_depth_and_steps_are_bounded_when_it_is_parsed(fits: str, exceeds: str, message: str) -> None:
    parse(fits)
    with pytest.raises(ExpressionError) as error:
        parse(exceeds)
    assert error.value.message == message


@pytest.mark.parametrize(
    "text",
    [
        "join([item, item, item], '')",
        "join([1, 2, 3, 4], item)",
        "format('{0}{0}{0}', item)",
        "upper(item)",
        "[lower(item), lower(item)]",
    ],
)
def test_s2_text_past_the_limit_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(parse(text), lambda _: "ŉ" * 500_001)
    assert error.value.message == "it would build more than 1,000,000 characters of text"


def test_s2_a_number_with_too_many_digits_is_refused_as_text() -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(parse("format('{}', item)"), lambda _: 10**5000)
    assert error.value.message == "a number has too many digits to be part of a text"


def test_s2_only_json_is_looked_at() -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(parse("length(item)"), lambda _: {1, 2})  # type: ignore[arg-type,return-value]  # the point of the test
    assert error.value.message == "a set is not JSON"


def test_g7_data_that_looks_like_an_expression_stays_data() -> None:
    assert evaluate(parse("format('{}', item)"), lambda _: "{{ inputs.n }} {0}") == "{{ inputs.n }} {0}"


def test_deep_data_is_compared_without_recursion() -> None:
    deep: Json = 1
    for _ in range(100_000):
        deep = [deep]
    assert evaluate(parse("item == item"), lambda _: deep) is True


def test_the_references_of_an_expression_tell_which_are_optional() -> None:
    found = references(parse("inputs.a == inputs.b? or default(length(nodes.c.output), item.d) in [index]"))
    assert sorted(map(str, found)) == ["index", "inputs.a", "inputs.b?", "item.d", "nodes.c.output?"]


@pytest.mark.parametrize("text", ["nodes.y.output.files[0].name", 'inputs["odd \\"key"][-1]?', "item", "job.id"])
def test_a_reference_spells_itself(text: str) -> None:
    assert {str(reference) for reference in references(parse(text))} == {text}


def test_trees_and_errors_can_be_pickled() -> None:
    tree = parse("default(inputs.a, format('{}', [1, null])) contains 'x' and not true")
    assert pickle.loads(pickle.dumps(tree)) == tree
    missing = pickle.loads(pickle.dumps(Missing(Reference("inputs", ("x",)), "gone")))
    assert (missing.message, missing.reference) == ("inputs.x is missing: gone", Reference("inputs", ("x",)))
    error = pickle.loads(pickle.dumps(ExpressionError("no", 3, "yes", ("a",))))
    assert (error.message, error.offset, error.hint, error.where) == ("no", 3, "yes", ("a",))
