"""The ids of assets and releases follow from the platform and its references alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.canonical import Json
from anabranch.errors import InputError
from anabranch.platform.identity import Identity, identify
from anabranch.platform.orders import PlatformOrder
from anabranch.platform.translators import translate_arcgis, translate_ddh

DDH = ("ddh", ("dataset_id", "resource_id"), (), "version_id")


def ddh(**refs: str | int) -> Identity:
    return identify(*DDH, refs)


@given(st.integers(0, 10**9), st.text("abc-_", min_size=1, max_size=9), st.integers(0, 99))
def test_p1_an_asset_is_the_same_for_every_version_and_spelling(dataset: int, resource: str, version: int) -> None:
    one = ddh(dataset_id=dataset, resource_id=resource, version_id=version)
    two = ddh(resource_id=f" {resource}", dataset_id=str(dataset), version_id=version + 1)
    assert one.asset_id == two.asset_id
    assert one.release_id != two.release_id
    assert len(one.asset_id) == 32
    assert one.asset_id not in (
        one.release_id,
        identify("x", *DDH[1:], {"dataset_id": dataset, "resource_id": resource}),
    )


def test_every_wrong_reference_is_named_at_once() -> None:
    with pytest.raises(InputError) as refused:
        ddh(dataset_id=" ", version=3)
    for words in ("'dataset_id' is missing", "'resource_id' is missing", "'version' is not one of them"):
        assert words in refused.value.message


def test_p1_a_text_is_the_same_however_its_characters_are_composed() -> None:
    assert ddh(dataset_id="H\u00f6hen", resource_id=1) == ddh(dataset_id="Ho\u0308hen", resource_id=1)


def test_p1_a_reference_is_not_true_or_false() -> None:
    with pytest.raises(InputError, match="'dataset_id' is neither a text nor a number"):
        ddh(dataset_id=True, resource_id=1)


def test_names_are_unique_where_their_words_and_first_digits_are_the_same() -> None:
    one, two = (ddh(dataset_id="a b" if n else "a-b", resource_id=1) for n in (0, 1))
    assert one.item_id.rpartition("-")[0] == two.item_id.rpartition("-")[0] == "a-b-1"
    assert len(one.item_id.rpartition("-")[2]) >= 16


def test_names_are_readable_and_safe() -> None:
    named = ddh(dataset_id="0038/../272", resource_id="Höhen; drop table")
    assert named.item_id.startswith("0038-272-h-hen-drop-table-")
    assert named.table == "t_" + named.item_id.replace("-", "_")
    assert len(named.table) <= 63


def test_e15_orders_with_other_secrets_are_not_the_same_request() -> None:
    given = {"platform": "ddh", "refs": {"a": 1}, "source": "bronze://ddh/a.tif", "callback_url": "https://a.example/"}
    first, second = (PlatformOrder.model_validate({**given, "callback_secret": one * 32}) for one in "ab")
    assert first.identity != second.identity
    assert first.body == second.body


def test_the_partners_own_shapes_become_orders() -> None:
    sent: dict[str, Json] = {
        "dataset_id": 7,
        "resource_id": "dem",
        "version_id": "2025-01",
        "container_name": "bronze",
        "file_name": "in/a.tif",
    }
    order = translate_ddh(sent)
    assert order["refs"] == {"dataset_id": 7, "resource_id": "dem", "version_id": "2025-01"}
    assert order["source"] == "bronze://in/a.tif"
    assert translate_arcgis({"item_id": "x", "layer_index": 0, "file_name": "a.gpkg"})["platform"] == "arcgis"
