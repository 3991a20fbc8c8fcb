"""Batches on a store behind a proxy that spoils answers: each run ends well or may be tried again, and all is exact.

The proxy speaks TLS with a certificate of a private authority, which the options of the store name.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from faults.place import SCENARIOS, Stores
from faults.recorded_table import recorded_states
from icefloe.errors import TransientError
from icefloe.patience import PATIENCE_VARIABLE
from support.fakes.faulty_proxy import FAULTS, every, faulty_proxy, is_create, is_read, is_write
from support.servers.private_authority import PrivateAuthority
from support.servers.versitygw import Versitygw
from support.tables.table_states import TableStates
from support.tiers import extended

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(900)]

BUCKET = "faulty"
OF_CREATES = ("409", "412")
PATIENCE = "6"
"""Seconds: a stalled answer is given up after a third of them."""
MOST_RUNS = 12


def struck_by(fault: str, concerns: Callable[[bytes], bool]) -> tuple[tuple[str, int], tuple[str, int]]:
    """Both runs, and which of their requests are struck. The client waits for each answer that stalls."""
    if fault.startswith("stall"):
        return (("changes", 31), ("damaged", 33)) if concerns is is_read else (("changes", 9), ("damaged", 5))
    return (("changes", 2), ("damaged", 2)) if concerns is is_create else (("changes", 3), ("damaged", 5))


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> TableStates:
    return recorded_states(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path_factory.mktemp("authority") / "files")


@pytest.fixture(scope="module")
def bucket(versitygw: Versitygw) -> Path:
    versitygw.make_bucket(BUCKET)
    return versitygw.folder / "data" / BUCKET


@pytest.mark.parametrize(
    ("name", "fault", "concerns", "nth"),
    [
        ("changes", "reset", is_write, 7),
        *(
            # Each fault of a read and of a write in one of both runs.
            extended(name, fault, concerns, nth)
            for turn, fault in enumerate(FAULTS)
            for concerns in ((is_create,) if fault in OF_CREATES else (is_read, is_write))
            for name, nth in [struck_by(fault, concerns)[(turn + (concerns is is_write)) % 2]]
        ),
    ],
)
def test_answers_that_are_lost_on_the_way_change_nothing(
    name: str,
    fault: str,
    concerns: Callable[[bytes], bool],
    nth: int,
    tmp_path: Path,
    states: TableStates,
    bucket: Path,
    versitygw: Versitygw,
    authority: PrivateAuthority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, PATIENCE)
    key = tmp_path.name
    with faulty_proxy(
        versitygw.port, FAULTS[fault], is_struck=every(nth), concerns=concerns, tls=authority.serving()
    ) as proxy:
        proxy.is_struck = lambda _: False
        options = without_plain(versitygw.options) | {
            "endpoint": f"https://127.0.0.1:{proxy.port}", "root_certificate": str(authority.bundle),
        }  # fmt: skip
        stores = Stores(folder=bucket / key, url=f"s3://{BUCKET}/{key}", options=options)
        place = SCENARIOS[name].place(tmp_path / "place", states, stores)
        proxy.is_struck = every(nth)
        for _ in range(MOST_RUNS):
            if delivers(place.deliver):
                break
        assert len(proxy.struck) > 3
        proxy.is_struck = lambda _: False
        place.require_exact(is_swept=True)


def without_plain(options: Mapping[str, str]) -> dict[str, str]:
    """The options without the key that allows connections without TLS."""
    return {key: value for key, value in options.items() if key != "allow_http"}


def delivers(run: Callable[[], object]) -> bool:
    """False if the run says that another may succeed; any other error is one."""
    try:
        run()
    except TransientError:
        return False
    return True
