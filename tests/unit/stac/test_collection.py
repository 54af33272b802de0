"""Collections, and extents that only grow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InputError
from anabranch.geo.boxes import Box, unite
from anabranch.plugins.stac.collection import CollectionFacts, build_collection, covers_items, widen
from anabranch.plugins.stac.validation.validate import find_errors


def item(bbox: list[float], moment: str | None = "2024-01-01T00:00:00Z", **times: str) -> dict[str, Any]:
    return {"bbox": bbox, "properties": {"datetime": moment, **times}}


def test_c1_a_new_collection_is_valid() -> None:
    document, said = build_collection(CollectionFacts(id="heights", title="Heights"))
    assert find_errors(document) == []
    assert said == {"id": "heights", "title": "Heights"}
    assert document["license"] == "other"


def test_a_collection_with_a_hostile_id_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        build_collection(CollectionFacts(id="../heights"))
    assert caught.value.code == "catalog.collection_id"


def test_c2_the_first_items_give_the_extent() -> None:
    extent = widen(None, [item([1, 2, 3, 4]), item([-5, 0, 2, 9], "2023-06-01T00:00:00Z")])
    assert extent == {
        "spatial": {"bbox": [[-5, 0, 3, 9]]},
        "temporal": {"interval": [["2023-06-01T00:00:00Z", "2024-01-01T00:00:00Z"]]},
    }


def test_c2_an_extent_is_never_narrowed() -> None:
    wide = widen(
        None,
        [item([-10, -10, 10, 10], None, start_datetime="2000-01-01T00:00:00Z", end_datetime="2030-01-01T00:00:00Z")],
    )
    assert widen(wide, [item([1, 1, 2, 2])]) == wide


def test_c2_an_open_end_stays_open() -> None:
    open_ended = {"spatial": {"bbox": [[0, 0, 1, 1]]}, "temporal": {"interval": [["2020-01-01T00:00:00Z", None]]}}
    assert widen(open_ended, [item([0, 0, 1, 1])])["temporal"] == open_ended["temporal"]


@pytest.mark.parametrize(
    ("boxes", "united"),
    [
        ([(170, 0, 175, 1), (-175, 0, -170, 1)], (-175, 0, 175, 1)),
        ([(170, 0, -170, 1), (160, 0, 165, 1)], (160, 0, -170, 1)),
        ([(170, 0, -170, 1), (-175, 0, -100, 1)], (170, 0, -100, 1)),
        ([(170, 0, -170, 1), (-180, 0, 180, 1)], (-180, 0, 180, 1)),
        ([(10, 0, -10, 1), (-20, 0, 20, 1)], (-180, 0, 180, 1)),
    ],
)  # fmt: skip
def test_c2_a_union_across_the_antimeridian_is_the_shortest_arc(boxes: list[Any], united: Any) -> None:
    assert unite([Box(*box) for box in boxes]) == united


longitudes, latitudes = st.floats(-180, 180), st.tuples(st.floats(-90, 90), st.floats(-90, 90)).map(sorted)
boxes = st.builds(lambda w, ns, e: Box(w, ns[0], e, ns[1]), longitudes, latitudes, longitudes)


@given(st.lists(boxes, min_size=1, max_size=8))
def test_c2_a_union_has_every_box(given_boxes: list[Box]) -> None:
    united = unite(given_boxes)
    assert all(united.covers(box) for box in given_boxes)


@given(st.lists(boxes, min_size=1, max_size=5), st.lists(boxes, min_size=1, max_size=5))
def test_c2_an_extent_covers_what_came_first_and_what_came_later(early: list[Box], late: list[Box]) -> None:
    first = widen(None, [item(list(box)) for box in early])
    second = widen(first, [item(list(box)) for box in late])
    assert covers_items(second, [item(list(box)) for box in (*early, *late)])
