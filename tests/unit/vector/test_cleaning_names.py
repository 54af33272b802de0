"""Names of columns and tables: plain, unique, and none that is reserved."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.plugins.stac.names import is_item_id
from anabranch.plugins.vector.cleaning.names import OWN_COLUMNS, name_columns
from anabranch.plugins.vector.cleaning.reserved_words import RESERVED_WORDS, SYSTEM_COLUMNS
from anabranch.plugins.vector.request import VectorRequest
from anabranch.plugins.vector.tables.names import name_base

NAMES = st.one_of(st.text(max_size=80), st.sampled_from(["a", "A", "a_1", "Ä", "gid", "GEOM", "user", "xmin", "", "1"]))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("name", "name"), ("id", "id"), ("Name", "name"), ("Größe (m²)", "grosse_m2"), ("Straße", "strasse"),
        ("Ångström", "angstrom"), ("Łódź", "lodz"), ("user", "_user"), ("ORDER", "_order"), ("2020", "_2020"),
        ("gid", "gid_1"), ("geom", "geom_1"), ("Geom", "geom_1"), ("xmin", "_xmin"), ("", "column_1"),
        ("名前", "column_1"), ("a.b-c", "a_b_c"), ("_id", "_id"), ("x" * 70, "x" * 63),
        ('a"; drop table', "a_drop_table"),
    ],
)  # fmt: skip
def test_v1_a_name_is_made_plain(source: str, name: str) -> None:
    assert name_columns([source]) == [name]


def test_v1_collisions_are_numbered_and_a_plain_name_stays() -> None:
    assert name_columns(["Name", "name", "NAME", "name_1"]) == ["name_2", "name", "name_3", "name_1"]
    assert name_columns(["a" * 70, "a" * 71]) == ["a" * 63, "a" * 61 + "_1"]
    assert name_columns(["same", "same"]) == ["same", "same_1"]


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, max_size=30))
def test_v1_names_are_always_valid_and_unique(sources: list[str]) -> None:
    names = name_columns(sources)

    assert len(set(names)) == len(names) == len(sources)
    assert all(re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) for name in names)
    assert not set(names) & (RESERVED_WORDS | SYSTEM_COLUMNS | OWN_COLUMNS)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("roads.geojson", "roads"), ("Größe 2024 (final).gpkg", "grosse_2024_final"), ("2024_a.csv", "t_2024_a"),
        ("_under.csv", "under"), ("a--b__c.csv", "a_b_c"), ("m².csv", "m2"),
    ],
)  # fmt: skip
def test_a_table_is_named_like_its_file(file: str, name: str) -> None:
    assert name_base(file) == name


def test_files_whose_letters_are_no_ascii_become_different_tables() -> None:
    files = ["дороги", "реки", "реки 2024", "дороги 2024", "名前", "---", "+++", "x" * 41, "x" * 42]
    names = [name_base(f"{file}.csv") for file in files]
    assert len(set(names)) == len(files)
    assert names[2].startswith("t_2024_")
    assert name_base("Й.csv") == name_base(unicodedata.normalize("NFD", "Й.csv")) == name_base("й.gpkg")


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=80))
def test_every_file_name_gives_a_name_for_a_table_and_an_item(file: str) -> None:
    name = name_base(file)
    assert VectorRequest(source="bronze://x", collection="c", table=name).table == name
    assert is_item_id(name)


def test_a_table_whose_item_could_have_no_id_is_refused_with_the_request() -> None:
    with pytest.raises(ValueError, match="begin with a letter"):
        VectorRequest(source="bronze://x", collection="c", table="_roads")
