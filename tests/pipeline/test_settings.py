from datetime import timedelta

import pytest

from icefloe.pipeline.settings import (
    SinkSettings,
    read_default_args,
    read_size,
    read_url,
)


def test_sizes_are_bytes_however_they_are_written():
    assert [read_size(value) for value in (10, 10.0, "10", "10 kB", None)] == [10, 10, 10, 10_000, None]


@pytest.mark.parametrize(
    ("written", "url"), [("s3://a/b//", "s3://a/b"), ("file:///", "file:///"), ("s3://a", "s3://a")]
)
def test_a_url_loses_its_final_slashes(written, url):
    assert read_url(written) == url


def test_durations_of_default_args_are_timedeltas():
    arguments = read_default_args({"retries": 3.0, "retry_delay": "5m", "execution_timeout": 90, "pool": "p"})
    assert arguments == {
        "retries": 3,
        "retry_delay": timedelta(minutes=5),
        "execution_timeout": timedelta(seconds=90),
        "pool": "p",
    }
    assert type(arguments["retries"]) is int


@pytest.mark.parametrize(("written", "factor"), [(True, 2.0), (False, 0.0), (3, 3.0), (1.5, 1.5)])
def test_an_exponential_backoff_is_a_factor(written, factor):
    assert read_default_args({"retry_exponential_backoff": written}) == {"retry_exponential_backoff": factor}


def test_a_files_sink_has_its_defaults_and_others_keep_their_options():
    files = SinkSettings.of({"type": "files", "path": "s3://lake/x/"})
    assert files == SinkSettings(type="files", path="s3://lake/x", format="parquet", target_file_bytes=128 * 2**20)
    other = SinkSettings.of({"type": "spark", "conn_id": "db", "format": "jdbc", "dbtable": "x"})
    assert other == SinkSettings(type="spark", conn_id="db", options={"format": "jdbc", "dbtable": "x"})
