import pytest

from icefloe.errors import NotBuiltError, TerminalError
from icefloe.sinks.files import FilesSink
from icefloe.sinks.open_sink import open_sink
from sinks.delivered_changes import SCHEMA, changes


def test_a_files_sink_writes_below_its_path(tmp_path):
    settings = {"type": "files", "path": (tmp_path / "a b").as_uri(), "format": "parquet", "target_file_bytes": 1 << 20}
    sink = open_sink(settings, {})
    assert isinstance(sink, FilesSink)
    sink.write(batch_number=0, number=0, schema=SCHEMA, changes=[changes(3)])
    assert [file.name for file in (tmp_path / "a b" / "batch=0").iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"type": "iceberg"}, "sink.type iceberg is not built yet"),
        ({"format": "jsonl"}, "sink.format jsonl is not built"),
    ],
)
def test_a_feature_that_is_not_built_is_named(settings, sentence):
    with pytest.raises(NotBuiltError, match=sentence):
        open_sink({"type": "files", "path": "memory://x", **settings}, {})


def test_a_malformed_path_is_an_error():
    with pytest.raises(TerminalError, match="ftp://x/y"):
        open_sink({"type": "files", "path": "ftp://x/y"}, {})
