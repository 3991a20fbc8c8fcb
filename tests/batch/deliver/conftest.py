from collections.abc import Iterator
from pathlib import Path

import pytest

from batch.deliver.delivered import Delivered
from support.sinks.document_folder import registered


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Delivered]:
    with registered():
        yield Delivered.create(tmp_path)
