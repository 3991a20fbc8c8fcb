from threading import Event

import pytest

from icefloe.testing.processes import run_at_once


def test_a_process_that_never_ends_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.testing.processes._SECONDS", 0.2)
    never = Event()
    with pytest.raises(TimeoutError, match="did not end"):
        run_at_once(lambda *_: None, [lambda _: never.wait(), lambda _: None])  # type: ignore[arg-type]
    never.set()
