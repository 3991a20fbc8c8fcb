from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from icefloe.iceberg.scan import compared_states

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads manifests in order, because fakes note what is read."""

    def in_order(call: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        return [call(item) for item in items]

    monkeypatch.setattr(compared_states, "map_parallel", in_order)
