import pytest

from icefloe.errors import NotBuiltError
from icefloe.pipeline.pipeline_file import load_pipeline, refuse_unbuilt

FILES = {"type": "files", "path": "s3://lake/changes"}


def test_built_features_pass(write):
    refuse_unbuilt(load_pipeline(write()))
    refuse_unbuilt(load_pipeline(write(checkpoint="dynamodb://checkpoints", coordination="dynamodb://icefloe")))
    keys = {
        "changes": "net",
        "max_steps_per_batch": 99,
        "max_bytes_per_batch": 2**30,
        "max_scan_bytes": "1GiB",
        "engine": "local",
        "verify_sample": 0.01,
    }
    refuse_unbuilt(load_pipeline(write(**keys, row_lineage="trust", pin=True, sink=FILES | {"format": "parquet"})))


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"sink": FILES | {"format": "jsonl"}}, "sink.format"),
        ({"sink": {"type": "iceberg", "table": "a.b"}}, "sink.type"),
        ({"sink": {"type": "opensaerch"}}, "sink.type"),
        ({"sink": {"type": "spark", "format": "jdbc"}}, "sink.type"),
    ],
)
def test_a_key_that_is_not_built_is_named_with_file_and_line(write, keys, key):
    path = write(**keys)
    with pytest.raises(NotBuiltError) as caught:
        refuse_unbuilt(load_pipeline(path))
    assert caught.value.line is not None
    assert caught.value.sentence.startswith(f"{path}:{caught.value.line}: {key} is ")
    assert " not built yet: " in caught.value.sentence
    assert (caught.value.key, caught.value.exit_code) == (key, 65)
    assert path.read_text().splitlines()[caught.value.line - 1].strip().startswith(key.rpartition(".")[2])


def test_a_value_from_the_environment_is_refused_once_it_is_known(write):
    pipeline = load_pipeline(write(sink=FILES | {"format": "${FORMAT}"}))
    refuse_unbuilt(pipeline)
    refuse_unbuilt(pipeline.expanded({"FORMAT": "parquet"}))
    with pytest.raises(NotBuiltError, match=r'sink.format is "\$\{FORMAT\}", but'):
        refuse_unbuilt(pipeline.expanded({"FORMAT": "jsonl"}))
