import pytest

from icefloe.pipeline.url import join_url, url_fault


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
        ("S3://lake/x", "write 's3://lake/x'"),
        ("hdfs://name/x", "has the scheme 'hdfs', which is none of"),
        ("s3:///x", "must name a bucket or container after s3://, not 's3:///x'"),
        ("s3:x", "must name a bucket or container after s3://"),
        ("file:///var/../etc", "must not have . or .. in its path"),
        ("s3://key:secret@lake/x", "holds a password: leave it out"),
        ("abfs://box/x?sig=abc", "holds a password: leave it out"),
        ("dynamodb://checkpoints", "has the scheme 'dynamodb'"),
    ],
)  # fmt: skip
def test_anything_else_says_what_to_write(text, fault):
    assert fault in url_fault(text)


def test_a_checkpoint_may_be_a_dynamodb_table():
    assert url_fault("dynamodb://checkpoints", allow_dynamodb=True) is None
    assert "must name a table" in url_fault("dynamodb://a/b", allow_dynamodb=True)
    assert "must name a table" in url_fault("dynamodb://", allow_dynamodb=True)


def test_a_folder_is_joined_with_one_slash():
    assert join_url("s3://lake/", "a", "b") == join_url("s3://lake", "a", "b") == "s3://lake/a/b"
    assert join_url("file:///", "a") == "file:///a"
