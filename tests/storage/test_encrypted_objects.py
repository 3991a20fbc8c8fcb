"""Encryption with a key of KMS: every object that a batch writes asks for it, whichever client writes it."""

import re
from collections.abc import Mapping
from pathlib import Path

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.model import Pipeline
from icefloe.storage.location import open_store
from support.pipelines.workspace import Workspace
from support.servers.careless_store import careless_store

KEY = "arn:aws:kms:eu-central-1:111122223333:key/0123"
OPTIONS = {
    "access_key_id": "any", "secret_access_key": "any", "region": "us-east-1", "allow_http": "true",
    "aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": KEY, "aws_sse_bucket_key_enabled": "true",
}  # fmt: skip
KINDS = (
    r"checkpoints/events/pipeline\.json", r"checkpoints/events/offsets/\d+\.json",
    r"checkpoints/events/commits/\d+\.json",
    r"checkpoints/events/owners/\d+\.json", r"checkpoints/events/reports/\d+\.json", r"checkpoints/events/status\.json",
    r"shuffle/.*/plan\.json", r"shuffle/.*/tasks/.*\.json", r"shuffle/.*\.data",
    r"shuffle/.*/\d+\.\d+", r"shuffle/.*/ranges\.json", r"shuffle/.*/extents/.*\.extents",
    r"shuffle/.*/results/.*\.json", r"shuffle/.*/phases/.*\.json", r"changes/batch=\d+/part-\d+\.parquet",
    r"changes/batch=\d+/_manifest\.json",
)  # fmt: skip
LARGE_BYTES = 2 << 20
"""Such a value is written by another client than small ones."""
IN_PARTS_BYTES = 9 << 20
"""Such a value is uploaded in parts."""


def test_every_object_of_a_batch_asks_for_the_key(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2, 3)
    puts: dict[str, Mapping[str, str]] = {}
    with careless_store(412, puts) as (endpoint, _):
        options = OPTIONS | {"endpoint": endpoint}
        credentials = Credentials(storage_options=options, sink_options=options)
        sink = {"type": "files", "path": "s3://lake/changes"}
        pipeline = Pipeline.load(workspace.pipeline(storage="s3://lake", sink=sink))

        def deliver() -> None:
            run_batch(PipelineSession.open(pipeline, credentials=credentials, environ={}), None, environ={})

        deliver()
        workspace.update(2, value=5.0)
        deliver()
        store = open_store("s3://lake/large", options=options)
        store.create("value", bytes(LARGE_BYTES))
        store.put("parts", bytes(IN_PARTS_BYTES))
    written = {path.removeprefix("/lake/"): headers for path, headers in puts.items()}
    for kind in KINDS:
        assert [path for path in written if re.fullmatch(kind, path)], f"no {kind} among {sorted(written)}"
    assert [path for path in written if path.startswith("large/parts?partNumber=")]
    # The beginning of an upload asks for the key of all its parts.
    assert "large/parts?uploads=" in written
    for path, headers in ((path, headers) for path, headers in written.items() if "uploadId=" not in path):
        sent = {name.lower(): value for name, value in headers.items()}
        asked = [sent.get(f"x-amz-server-side-encryption{rest}") for rest in
                 ("", "-aws-kms-key-id", "-bucket-key-enabled")]  # fmt: skip
        assert asked == ["aws:kms", KEY, "true"], path
