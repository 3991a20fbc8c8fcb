import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo.flights_table import FlightsTable, TableChange, read_flights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[TableChange, int, pa.Table]]:
    """Each of the four changes, the commits it took, and the table after it."""
    table = FlightsTable.create(tmp_path_factory.mktemp("demo"))
    recorded, commits = [], 0
    for change in (table.load_until_october, table.append_november, table.correct_delays,
                   table.update_delete_and_arrive_late):  # fmt: skip
        said = change()
        metadata_files = len(table.table.metadata.metadata_log)
        recorded.append((said, metadata_files - commits, table.table.scan().to_arrow()))
        commits = metadata_files
    return recorded


def test_every_flight_has_its_columns_and_an_id(flights: pa.Table) -> None:
    assert flights.shape == (336_776, 20)
    assert pc.count_distinct(flights["flight_id"]).as_py() == len(flights)
    assert flights["dep_time"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512
    assert flights.slice(0, 1).to_pylist()[0]["time_hour"].isoformat() == "2013-01-01T10:00:00+00:00"


def test_each_change_says_what_it_did_to_the_rows(states: list[tuple[TableChange, int, pa.Table]]) -> None:
    before = pd.DataFrame(index=pd.Index([], name="flight_id"))
    for said, _, table in states:
        after = table.to_pandas().set_index("flight_id")
        shared = before.index.intersection(after.index)
        old, new = before.reindex(columns=after.columns).loc[shared], after.loc[shared]
        differs = old.ne(new) & ~(old.isna() & new.isna())
        counted = (len(after) - len(shared), int(differs.any(axis=1).sum()), len(before) - len(shared))
        assert counted == (said.inserts, said.updates, said.deletes), said.title
        before = after


def test_each_change_is_as_many_commits_as_it_says(states: list[tuple[TableChange, int, pa.Table]]) -> None:
    assert [commits for _, commits, _ in states] == [said.commits for said, _, _ in states] == [1, 1, 1, 3]
