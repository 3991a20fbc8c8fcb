import pytest

from icefloe.pipeline.url import holds_password, location_fault, url_below, url_fault


@pytest.mark.parametrize(
    "url",
    ["file:///var/icefloe", "file:///", "s3://lake", "s3://lake/a b/c", "gs://lake/x/", "memory://lab/x",
     "abfs://box/x", "abfss://box@account.dfs.core.windows.net/x"],
)  # fmt: skip
def test_a_url_of_a_known_scheme_passes(url):
    assert url_fault(url) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("/var/icefloe", "must be a URL, not a path: write 'file:///var/icefloe'"),
        ("icefloe", "must be a URL such as file:///var/icefloe or s3://bucket/folder, not 'icefloe'"),
        (" s3://lake", "must be a URL such as"),
        ("file:/var/icefloe", "must have three slashes: write 'file:///var/icefloe'"),
        ("file://var/icefloe", "must name an absolute path, as in file:///var/icefloe, not 'file://var/icefloe'"),
        ("s3a://lake/x", "file://, s3://, gs://, abfs://, abfss://, memory://: write 's3://lake/x'"),
        ("hdfs://name/x", "has the scheme 'hdfs', which is none of"),
        ("s3:///x", "must name a bucket or container after s3://, not 's3:///x'"),
        ("file:///var/../etc", "must not have . or .. in its path"),
        ("s3://key:secret@lake/x", "holds a password: leave it out"),
        ("s3://AKIA:abc/def@bucket/x", "holds a password: leave it out"),
        ("abfs://box/x?sig=abc", "holds a password: leave it out"),
        ("dynamodb://checkpoints", "has the scheme 'dynamodb'"),
        ("abfs://box@lake/a", "must name a whole host as in abfs://box@account.dfs.core.windows.net/a, or none: abfs://box/a"),
        ("abfss://box@lake.example.com", "must name a whole host"),
    ],
)  # fmt: skip
def test_anything_else_says_what_to_write(text, fault):
    assert fault in str(url_fault(text))


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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("/data", "must be a URL, not a path: write 'file:///data'"),
        ("s4://lake", "has the scheme 's4', which is none of"),
        ("s3a:///x", "must name a bucket or container after s3a://"),
        ("s3a://lake/../other", "must not have . or .. in its path"),
        ("s3a://key:secret@lake", "holds a password"),
    ],
)
def test_a_location_that_is_none_says_what_to_write(text, fault):
    assert fault in str(location_fault(text))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["://", ":", "://:", "?", "a"])
def test_a_text_of_a_megabyte_takes_no_more_time_than_its_length(piece):
    assert not holds_password("s3://" + piece * (1_000_000 // len(piece)))
