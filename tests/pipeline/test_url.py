import pytest

from icefloe.pipeline.url import holds_password, location_fault, url_below, url_fault


@pytest.mark.parametrize(
    "url",
    ["file:///var/icefloe", "file:///", "s3://lake", "s3://lake/a b/c", "gs://lake/x/", "memory://lab/x",
     "abfs://box/x", "abfss://box@account.dfs.core.windows.net/x", "abfs://box/a@b"],
)  # fmt: skip
def test_a_url_of_a_known_scheme_passes(url):
    assert url_fault(url) is None


@pytest.mark.parametrize(
    "text",
    ["/var/icefloe", "icefloe", " s3://lake", "file:/var/icefloe", "file://var/icefloe", "s3a://lake/x", "hdfs://name/x",
     "s3:///x", "file:///var/../etc", "dynamodb://checkpoints", "abfs://box@lake/a", "abfss://box@lake.example.com"],
)  # fmt: skip
def test_anything_else_says_what_to_write(text):
    fault = str(url_fault(text))
    assert fault.startswith("must be a URL: file:/// and an absolute path, or a bucket or container")
    assert fault.endswith(f"without . and .. in its path, not '{text}'")


@pytest.mark.parametrize("check", [url_fault, location_fault])
@pytest.mark.parametrize(
    "text", ["s3://key:secret@lake/x", "s3://AKIA:abc/def@bucket/x", "abfs://box/x?sig=abc", "s3a://key:secret@lake"]
)
def test_a_password_is_not_repeated(check, text):
    assert check(text) == "holds a password: leave it out and name an Airflow connection that has it"


def test_a_checkpoint_may_be_a_dynamodb_table():
    assert url_fault("dynamodb://checkpoints", allow_dynamodb=True) is None
    assert "must name a table" in str(url_fault("dynamodb://a/b", allow_dynamodb=True))
    assert "must name a table" in str(url_fault("dynamodb://", allow_dynamodb=True))


def test_a_folder_is_joined_with_one_slash():
    assert url_below("s3://lake/", "a", "b") == url_below("s3://lake", "a", "b") == "s3://lake/a/b"
    assert url_below("file:///", "a") == "file:///a"


@pytest.mark.parametrize(
    "text",
    ["file:///data", "s3://lake", "s3a://lake/x", "hdfs://name:8020/x", "hdfs://name:8020/a@b", "wasbs://box@a.blob.core.windows.net"],
)  # fmt: skip
def test_files_of_a_table_may_lie_wherever_pyiceberg_reads(text):
    assert location_fault(text) is None


@pytest.mark.parametrize("text", ["/data", "s4://lake", "s3a:///x", "s3a://lake/../other"])
def test_a_location_that_is_none_says_what_to_write(text):
    assert "a bucket or container" in str(location_fault(text))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["://", ":", "://:", "?", "a"])
def test_a_text_of_a_megabyte_takes_no_more_time_than_its_length(piece):
    assert not holds_password("s3://" + piece * (1_000_000 // len(piece)))
