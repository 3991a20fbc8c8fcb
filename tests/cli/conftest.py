from pathlib import Path

import pytest

from support.pipelines.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A table with one snapshot of ten rows, and ``events.yaml``."""
    made = Workspace.create(tmp_path)
    made.append(*range(10))
    made.pipeline()
    return made
