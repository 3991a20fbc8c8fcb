import pytest
import yaml

MINIMAL = {
    "version": 1,
    "catalog": "lakehouse",
    "table": "nyc.flights",
    "storage": "file:///var/icefloe",
    "sink": {"type": "files", "path": "s3://lake/changes"},
}


@pytest.fixture
def write(tmp_path):
    """Writes a pipeline file: a text as it stands, or the smallest valid file with some keys changed."""

    def write_file(text=None, /, *, stem="flights", **keys):
        path = tmp_path / f"{stem}.yaml"
        if text is None:
            text = yaml.safe_dump(MINIMAL | keys, sort_keys=False)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file
