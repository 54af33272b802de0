"""A process starts only on the storage that the other processes of its database use (TN3)."""

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.adapters.postgres.schema.migrate import reset
from anabranch.adapters.postgres.store.objects.marks import PostgresMarks
from anabranch.app import open_marks
from anabranch.errors import Conflict
from anabranch.settings import Settings
from anabranch.storage.locations import AREAS
from anabranch.storage.marks import Mark, adopt_storage, check_storage, join_storage
from anabranch.storage.tiers import Storage
from tests.support.objects import Cloud

pytestmark = pytest.mark.postgres


def at(home: Path, url: str) -> tuple[Storage, dict[str, str], PostgresMarks]:
    return open_marks(Settings(home=home), url)


def test_tn3_processes_with_one_home_start_and_one_with_another_does_not(database_url: str, tmp_path: Path) -> None:
    assert not check_storage(*at(tmp_path / "one", database_url))
    join_storage(*at(tmp_path / "one", database_url))
    join_storage(*at(tmp_path / "one", database_url))
    assert check_storage(*at(tmp_path / "one", database_url))
    for see in (join_storage, check_storage):
        with pytest.raises(
            Conflict, match=r"bronze at file:.*two/bronze is not the store .* theirs was at .*one/bronze"
        ) as told:
            see(*at(tmp_path / "two", database_url))
        assert told.value.code == "storage.not_shared"
        assert "ANABRANCH_STORAGE__BRONZE" in told.value.remedy
    assert not (tmp_path / "two" / "bronze" / ".anabranch").exists(), "one that is refused marks nothing"


def test_tn3_two_homes_that_share_an_object_store_start(database_url: str, tmp_path: Path, s3: Cloud) -> None:
    for home in ("one", "two"):
        places = [Place(area, f"{s3.url}/{area}", s3.options) for area in AREAS]
        storage = open_storage(places, tmp_path / home)
        join_storage(storage, {place.tier: place.url for place in places}, PostgresMarks(database_url))


def test_tn3_of_two_that_start_first_with_other_tiers_one_starts(database_url: str, tmp_path: Path) -> None:
    def start(name: str) -> bool:
        try:
            join_storage(*at(tmp_path / name, database_url))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        joined = list(pool.map(start, ["one", "two"] * 2))
    assert joined in ([True, False] * 2, [False, True] * 2)


def test_tn3_all_that_start_first_with_the_same_tiers_start(database_url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: join_storage(*at(tmp_path, database_url)), range(8)))


def test_tn3_a_tier_that_was_emptied_is_adopted_by_a_command_and_all_others_go_on(
    database_url: str, tmp_path: Path
) -> None:
    given = at(tmp_path, database_url)
    join_storage(*given)
    shutil.rmtree(tmp_path / "silver")
    with pytest.raises(Conflict, match=r"silver at .* holds no mark"):
        join_storage(*given)
    before = given[2].read()
    assert adopt_storage(*given) == {
        "bronze": "unchanged", "silver": "marked", "gold": "unchanged", "work": "unchanged"
    }  # fmt: skip
    join_storage(*given)
    assert given[2].read() == before


def test_tn3_tiers_that_were_moved_are_adopted_and_the_old_ones_are_refused(database_url: str, tmp_path: Path) -> None:
    join_storage(*at(tmp_path / "old", database_url))
    other = at(tmp_path / "new", database_url)
    for area in other[0].areas.values():
        area.put(".anabranch/mark", b"of another installation")
    assert set(adopt_storage(*other).values()) == {"adopted"}
    join_storage(*other)
    with pytest.raises(Conflict, match="holds the mark of another installation"):
        join_storage(*at(tmp_path / "old", database_url))


def test_tn3_a_database_that_was_reset_takes_the_tiers_as_they_are(database_url: str, tmp_path: Path) -> None:
    join_storage(*at(tmp_path, database_url))
    before = at(tmp_path, database_url)[2].read()
    reset(database_url)
    join_storage(*at(tmp_path, database_url))
    assert at(tmp_path, database_url)[2].read() == before


def test_s3_no_address_leads_to_the_marks_and_no_list_shows_them(database_url: str, tmp_path: Path, s3: Cloud) -> None:
    shared = open_storage([Place(area, f"{s3.url}/{area}", s3.options) for area in AREAS], tmp_path)
    for storage in (at(tmp_path, database_url)[0], shared):
        join_storage(storage, dict.fromkeys(AREAS, ""), Known())
        storage.put("silver://seen", b"")
        assert [stat.key for stat in storage.walk("silver://")] == ["seen"]
        with pytest.raises(Exception, match="reserved"):
            storage.read("silver://.anabranch/mark")
        with pytest.raises(Exception, match="there is no tier 'work'"):
            storage.read("work://results/mark")


class Known(dict[str, Mark]):
    """Marks in memory."""

    def read(self) -> "Known":
        return self

    def note(self, found: Mapping[str, Mark], *, replace: bool = False) -> None:
        self.update({area: mark for area, mark in found.items() if replace or area not in self})
