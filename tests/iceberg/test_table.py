import json
from pathlib import Path

import pytest
from pyiceberg.table import Table

from icefloe.iceberg.table import table_uuid
from support.tables.planning_tables import make_catalog, make_table, rows


def load(folder: Path) -> Table:
    return make_catalog(folder).load_table("db.events")


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_table_keeps_its_uuid_and_a_new_one_has_another(tmp_path: Path, format_version: int) -> None:
    table = make_table(tmp_path, format_version=format_version)
    table.append(rows(1))
    assert table_uuid(load(tmp_path)) == table_uuid(load(tmp_path)) == str(table.metadata.table_uuid)
    make_catalog(tmp_path).drop_table("db.events")
    made_anew = make_table(tmp_path, format_version=format_version)
    assert made_anew.metadata.location == table.metadata.location
    assert table_uuid(load(tmp_path)) not in (None, str(table.metadata.table_uuid))


def test_a_uuid_that_was_made_up_on_loading_does_not_count(tmp_path: Path) -> None:
    table = make_table(tmp_path, format_version=1)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    del metadata["table-uuid"]
    path.write_text(json.dumps(metadata))
    assert load(tmp_path).metadata.table_uuid != load(tmp_path).metadata.table_uuid
    assert table_uuid(load(tmp_path)) is None
