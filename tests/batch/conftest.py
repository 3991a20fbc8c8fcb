from pathlib import Path

import pytest

from support.pipelines.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """An empty table with a pipeline over it."""
    return Workshop.create(tmp_path)
