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


def test_an_encrypted_table_is_refused_by_its_key_or_by_the_first_bytes_of_a_manifest_list(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"encryption.key-id": "k"})
    with pytest.raises(NotBuiltError, match=r"db\.events is encrypted \(it has the property encryption\.key-id\)"):
        read_changes(table)
    table = make_table(tmp_path, name="without")
    table.append(rows(1))
    path = Path(table.current_snapshot().manifest_list.removeprefix("file://"))
    path.write_bytes(b"AGS1" + path.read_bytes()[4:])
    with pytest.raises(NotBuiltError, match=r"file .*snap-.*\.avro is encrypted"):
        read_changes(table)


def test_an_encrypted_parquet_file_is_recognized_by_its_last_bytes_and_one_without_a_footer_is_damaged(
    tmp_path: Path,
) -> None:
    buffer = io.BytesIO()
    pq.write_table(column("id", pa.array([1])), buffer)
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PARE" + buffer.getvalue()[4:-4] + b"PARE")
    with pytest.raises(NotBuiltError, match=r"data file .*f\.parquet is encrypted, which this release cannot read"):
        read_one(describe(path, 1), optional("id", LongType()))
    for content in (b"", b"PAR", b"PAR1PAR1"):
        path.write_bytes(content)
        with pytest.raises(TerminalError, match=r"f\.parquet of table db\.t cannot be decoded"):
            read_one(describe(path, 1), optional("id", LongType()))
