"""Cells that are found by their parents are those that H3 finds itself, and their polygons are valid everywhere."""

from itertools import pairwise
from typing import Any

import h3.api.numpy_int as h3
import numpy as np
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.h3.cells import cover, estimate_cells, find_cells, find_parents, generate_descendants
from anabranch.plugins.h3.planning import divide
from anabranch.plugins.h3.polygons import polygons_of
from anabranch.plugins.h3.rows import describe_cells
from anabranch.plugins.h3.settings import H3Settings

GLOBE = shapely.box(-180, -90, 180, 90)
STAR = shapely.Polygon([(7, 50), (7.4, 50.9), (9, 51), (7.6, 51.2), (8, 52.4), (7.1, 51.3), (5.5, 51.6), (6.7, 50.9)])
ISLAND = shapely.Polygon([(20, -40), (24, -40), (24, -36), (20, -36)], [[(21, -39), (23, -39), (23, -37), (21, -37)]])
TINY = shapely.box(10, 50, 10.02, 50.02)
AREAS = [(STAR, 6), (ISLAND, 5), (TINY, 10), (shapely.union(STAR, ISLAND), 4), (shapely.box(-30, 80, 60, 89), 4)]


def cascade(area: shapely.Geometry, resolution: int, **limits: int) -> np.ndarray[Any, Any]:
    parts = divide(area, resolution, H3Settings(**limits))
    parents = [np.array([int(cell, 16) for cell in part.parents], np.uint64) for part in parts]
    return np.concatenate([find_cells(area, group, resolution) for group in parents])


@pytest.mark.parametrize(("area", "resolution"), AREAS)
def test_the_cascade_equals_the_direct_polyfill(area: shapely.Geometry, resolution: int) -> None:
    found = cascade(area, resolution, h3_task_cells=500)
    assert len(set(found)) == len(found)
    assert set(found) == set(h3.geo_to_cells(area, resolution))


def test_all_cells_of_the_globe_are_found_once() -> None:
    found = cascade(GLOBE, 2, h3_task_cells=100)
    assert len(found) == len(set(found)) == h3.get_num_cells(2)
    assert estimate_cells(GLOBE, 2) == h3.get_num_cells(2)


def test_no_descendant_reaches_further_than_is_looked_for() -> None:
    """A point in each cell of resolution 4 finds that cell by its ancestors, wherever it is."""
    cells = cascade(GLOBE, 3)
    for cell in cells[:: len(cells) // 60]:
        lat, lon = h3.cell_to_latlng(cell)
        assert cell in generate_descendants(shapely.Point(lon, lat), cover(shapely.Point(lon, lat), 0), 3)


def test_the_gids_of_parts_do_not_meet() -> None:
    parts = divide(STAR, 6, H3Settings(h3_task_cells=500))
    assert len(parts) > 3
    for part, following in pairwise(parts):
        room = sum(h3.cell_to_children_size(int(cell, 16), 6) for cell in part.parents)
        assert following.first_gid == part.first_gid + room


def test_too_many_cells_are_refused_with_their_number() -> None:
    number = "about 569,707,381,193,162 cells of resolution 15, and the limit is 20,000,000"
    with pytest.raises(Permanent, match=number) as no:
        divide(GLOBE, 15, H3Settings())
    assert no.value.code == "h3.too_many"


@pytest.mark.parametrize("resolution", [0, 1, 3])
def test_polygons_are_valid_and_cover_the_globe_once(resolution: int) -> None:
    """Cells at the antimeridian and at the poles are cut, and pentagons are there."""
    cells = find_cells(GLOBE, cover(GLOBE, 0), resolution)
    if resolution == 3:  # those at the edges of the map, and some others
        lats, lons = np.array([h3.cell_to_latlng(cell) for cell in cells]).T
        cells = cells[(np.abs(lons) > 170) | (np.abs(lats) > 85)]
    polygons = polygons_of(cells)
    assert shapely.is_valid(polygons).all()
    assert set(shapely.get_type_id(polygons)) == {shapely.GeometryType.MULTIPOLYGON}
    west, south, east, north = shapely.total_bounds(polygons)
    assert (west, south, east, north) == (-180, -90, 180, 90)
    lats, lons = np.array([h3.cell_to_latlng(cell) for cell in cells]).T
    assert shapely.intersects_xy(polygons, lons, lats).all()
    if resolution < 3:
        assert shapely.area(polygons).sum() == pytest.approx(360 * 180, rel=2e-3)


def test_the_columns_of_cells() -> None:
    (cell,) = np.array([h3.latlng_to_cell(50.7, 7.1, 9)], np.uint64)
    columns = {name: values.to_pylist() for name, values in describe_cells(np.array([cell]), 9).items()}
    parent = int(h3.cell_to_parent(cell, 8))
    assert columns == {"h3": [int(cell)], "h3_text": [h3.int_to_str(cell)], "resolution": [9], "parent": [parent]}
    children = h3.cell_to_children(parent, 9)
    found = find_parents(children, 9)
    assert found is not None
    assert set(found) == {parent}
    assert describe_cells(np.array([h3.get_res0_cells()[0]], np.uint64), 0)["parent"].to_pylist() == [None]
