"""Values of a data file that their types do not allow."""

import pytest

from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop

SAID = r"of table db\.events cannot be read: column 'word' holds a value that its type does not allow \(.*UTF8"


@pytest.fixture
def table(workshop: Workshop) -> Workshop:
    with workshop.table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "uncompressed"})
    workshop.append([20, 30, 40, 50])
    return workshop


def spoil(workshop: Workshop) -> None:
    """Puts bytes that are no UTF-8 into the text of row 30."""
    for path in workshop.folder.rglob("*.parquet"):
        if "changes" not in path.parts:
            path.write_bytes(path.read_bytes().replace(b"word 30", b"word 3\xff"))


def test_text_that_is_no_utf8_is_refused_as_it_is_inserted_or_before_it_is_shuffled(table: Workshop) -> None:
    good = {path: path.read_bytes() for path in table.folder.rglob("*.parquet")}
    spoil(table)
    with pytest.raises(TerminalError, match=SAID):
        table.deliver()
    for path, content in good.items():
        path.write_bytes(content)
    table.deliver()
    spoil(table)
    table.update([30], value=2.0)
    with pytest.raises(TerminalError, match=SAID) as refused:
        table.deliver()
    assert refused.value.exit_code == 65


def test_rows_with_right_values_are_delivered_next_to_wrong_ones(table: Workshop) -> None:
    table.deliver()
    spoil(table)
    table.update([40], value=2.0)
    table.deliver()
    assert table.changes(1)["word"].to_pylist() == ["word 40", "word 40"]


def test_a_column_with_wrong_values_can_be_left_out(table: Workshop) -> None:
    spoil(table)
    report = table.set(columns=["id", "value"]).deliver()
    assert report is not None
    assert report.batch.counts["insert"] == 4
