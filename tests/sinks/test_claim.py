import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import CLAIM


def claim(store, owner: str, *, only_looks: bool = False) -> None:
    origin = Origin(owner=owner, pipeline=f"flights_{owner}", table="nyc.flights")
    ChangeFiles(store).claim(origin, only_looks=only_looks)


def test_the_first_owner_has_the_path_and_may_say_so_again(store):
    claim(store, "a")
    claim(store, "a")
    with pytest.raises(TerminalError, match=r"belongs to pipeline flights_a for table nyc\.flights .*checkpoint a"):
        claim(store, "b")
    found = json.loads(store.get(CLAIM))
    assert found == {"version": 1, "owner": "a", "pipeline": "flights_a", "table": "nyc.flights"}


def test_a_look_at_the_owner_refuses_another_one_and_claims_nothing(store):
    claim(store, "b", only_looks=True)
    assert list(store.list("")) == []
    claim(store, "a")
    claim(store, "a", only_looks=True)
    with pytest.raises(TerminalError, match="not to checkpoint b of pipeline flights_b"):
        claim(store, "b", only_looks=True)


def test_of_many_owners_at_once_one_gets_the_path(store):
    def try_it(owner: str) -> bool:
        try:
            claim(store, owner)
        except TerminalError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(try_it, map(str, range(16))))
    assert won.count(True) == 1
    assert json.loads(store.get(CLAIM))["owner"] == str(won.index(True))
