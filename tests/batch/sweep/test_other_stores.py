"""A sweep of a store that keeps no folders. A real S3 store has a test in tests/servers."""

from pathlib import Path

from support.pipelines.sweeping import require_swept_anywhere
from support.pipelines.workshop import Workshop


def test_a_store_in_memory_is_swept(workshop: Workshop, tmp_path: Path) -> None:
    require_swept_anywhere(workshop, f"memory://{tmp_path.name}")
