from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from icefloe.iceberg.scan import data_manifests, live_deletes

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads manifests in order, because fakes note what is read."""

    def in_order(call: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        return [call(item) for item in items]

    for module in (data_manifests, live_deletes):
        monkeypatch.setattr(module, "map_parallel", in_order)
