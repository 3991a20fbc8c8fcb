import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from icefloe.api import read_changes
from icefloe.errors import NotBuiltError, TerminalError
from support.tables.planning_tables import make_table, rows
from support.tables.written_tables import column, describe, optional, read_one


def test_a_table_with_an_encryption_key_is_refused_before_a_file_is_read(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"encryption.key-id": "k"})
    with pytest.raises(
        NotBuiltError, match=r"table db\.events is encrypted \(it has the property encryption\.key-id\)"
    ):
        read_changes(table)


def test_an_encrypted_manifest_list_is_recognized_by_its_first_bytes(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = Path(snapshot.manifest_list.removeprefix("file://"))
    path.write_bytes(b"AGS1" + path.read_bytes()[4:])
    with pytest.raises(NotBuiltError, match=r"file .*snap-.*\.avro is encrypted"):
        read_changes(table)


def test_a_parquet_file_with_an_encrypted_footer_is_recognized_by_its_last_bytes(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(column("id", pa.array([1])), buffer)
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PARE" + buffer.getvalue()[4:-4] + b"PARE")
    with pytest.raises(NotBuiltError, match=r"data file .*f\.parquet is encrypted, which this release cannot read"):
        read_one(describe(path, 1), optional("id", LongType()))


@pytest.mark.parametrize("content", [b"", b"PAR", b"PAR1PAR1"])
def test_a_file_without_a_footer_is_damaged_not_encrypted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.parquet").write_bytes(content)
    with pytest.raises(TerminalError, match=r"f\.parquet of table db\.t cannot be decoded"):
        read_one(describe(tmp_path / "f.parquet", 1), optional("id", LongType()))
