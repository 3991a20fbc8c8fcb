import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import CLAIM, PathClaimedError
from icefloe.storage.location import open_store


@pytest.fixture
def store(tmp_path):
    return open_store((tmp_path / "changes").as_uri())


def claim(store, owner: str) -> None:
    ChangeFiles(store).claim(owner=owner, pipeline=f"flights_{owner}", table="nyc.flights")


def test_the_first_owner_has_the_path_and_may_say_so_again(store):
    claim(store, "a")
    claim(store, "a")
    with pytest.raises(PathClaimedError, match=r"belongs to pipeline flights_a for table nyc\.flights .*checkpoint a"):
        claim(store, "b")
    found = json.loads(store.get(CLAIM))
    assert found == {"version": 1, "owner": "a", "pipeline": "flights_a", "table": "nyc.flights"}


def test_a_look_at_the_owner_refuses_another_one_and_claims_nothing(store):
    names = {"pipeline": "flights_b", "table": "nyc.flights"}
    ChangeFiles(store).refuse_other_owner(owner="b", **names)
    assert list(store.list("")) == []
    claim(store, "a")
    ChangeFiles(store).refuse_other_owner(owner="a", **names)
    with pytest.raises(PathClaimedError, match="not to checkpoint b of pipeline flights_b"):
        ChangeFiles(store).refuse_other_owner(owner="b", **names)


def test_of_many_owners_at_once_one_gets_the_path(store):
    def try_it(owner: str) -> bool:
        try:
            claim(store, owner)
        except PathClaimedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(try_it, map(str, range(16))))
    assert won.count(True) == 1
    assert json.loads(store.get(CLAIM))["owner"] == str(won.index(True))
