"""Damaged bytes of others: an error of ours, or rows; never a foreign error, never more memory or time than there is.

ICEFLOE_FUZZ_EXAMPLES=20000 tries more of them, other ones each time.
"""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.damages import damaged
from fuzz.foreign_readers import READERS
from icefloe.errors import IcefloeError

EXAMPLES: Final = int(os.environ.get("ICEFLOE_FUZZ_EXAMPLES", "0"))
FEW: Final = 40
MOST_BYTES: Final = 512 << 20
"""Memory that reading a file of a few kilobytes may take: as much as a task may take above its `memory_bytes`."""
MOST_CPU_SECONDS: Final = 20.0


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Lets the process have only so much more memory than it has now."""
    held = resource.getrlimit(resource.RLIMIT_DATA)
    used_kib = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_DATA, ((used_kib << 10) + MOST_BYTES, held[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, held)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes_end_in_an_error_of_ours_or_in_rows(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    (tmp_path / "valid").mkdir()
    samples = reader.valid(tmp_path / "valid")
    path = tmp_path / "damaged.yaml"
    right = []
    for sample in samples:
        path.write_bytes(sample)
        right.append(reader.read(path))

    is_random = EXAMPLES > 0 and reader.most_examples is None

    @settings(
        max_examples=min(EXAMPLES or FEW, reader.most_examples or EXAMPLES or FEW),
        derandomize=not is_random,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data())
    def read_damaged(data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(samples) - 1))
        content = reader.repair(data.draw(damaged(samples[number])))
        path.write_bytes(content)
        started = time.process_time()
        try:
            with bounded_memory():
                found = reader.read(path)
        except IcefloeError:
            pass
        else:
            assert not reader.is_sealed or found == right[number]
        assert time.process_time() - started < MOST_CPU_SECONDS

    read_damaged()
