"""The heap of a process."""

import os
import subprocess
import sys
from unittest.mock import Mock

import pytest

from icefloe.memory_pool import release_unshared_memory, share_heap

POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
SHOW = "import pyarrow as pa; print(pa.default_memory_pool().backend_name)"


@pytest.mark.parametrize(("named", "pool"), [(None, "system"), ("", "system"), ("mimalloc", "mimalloc")])
def test_a_process_takes_arrows_memory_from_the_c_library_unless_its_environment_names_a_pool(
    named: str | None, pool: str
) -> None:
    environ = {} if named is None else {POOL_VARIABLE: named}
    share_heap(environ)
    assert environ == {POOL_VARIABLE: pool}
    assert printed(SHOW, environ)[-1] == pool


def test_a_command_shares_the_heap() -> None:
    command = "import sys; from icefloe.cli import main; sys.argv = ['icefloe', '--version']; main(); "
    assert printed(command + SHOW, {POOL_VARIABLE: ""})[-1] == "system"


def printed(code: str, environ: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(("backend", "releases"), [("system", 0), ("mimalloc", 1), ("jemalloc", 1)])
def test_only_memory_that_arrow_does_not_share_is_given_back(
    monkeypatch: pytest.MonkeyPatch, backend: str, releases: int
) -> None:
    pool = Mock(backend_name=backend)
    monkeypatch.setattr("pyarrow.default_memory_pool", lambda: pool)
    release_unshared_memory()
    assert pool.release_unused.call_count == releases
