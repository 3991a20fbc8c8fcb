"""A pytest plugin for random histories that are to fail soon: writers take turns, and nothing is made smaller."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from histories.history import History
from histories.trial import Laboratory


@pytest.fixture(scope="session", autouse=True)
def _histories_as_they_are() -> Iterator[None]:
    def shrunken(laboratory: Laboratory, history: History, *arguments: Any, **options: Any) -> History:
        return history

    with patch.object(Laboratory, "shrunken", shrunken):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_seed)


def _seed(item: pytest.Item) -> int:
    callspec = getattr(item, "callspec", None)
    return -1 if callspec is None else callspec.params.get("seed", -1)
