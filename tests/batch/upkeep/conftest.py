from pathlib import Path

import pytest

from support.pipelines.operated import Operated


@pytest.fixture
def operated(tmp_path: Path) -> Operated:
    """A pipeline with one delivered batch of twenty rows."""
    made = Operated.create(tmp_path / "operated")
    made.append(range(20))
    made.deliver()
    return made
