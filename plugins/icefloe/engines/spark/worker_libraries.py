"""A check that Spark's workers have the libraries of the driver, before a task is unpacked that needs them."""

import pickle
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Generic, NamedTuple, NoReturn, TypeVar

from icefloe.errors import TerminalError, TransientError

_LIBRARIES: Final = ("pyarrow", "numpy", "obstore", "lz4", "pyroaring", "pyiceberg", "pydantic")
_NO_PYTHON: Final = ("Cannot run program", "PYTHON_VERSION_MISMATCH")
"""What Spark says of a worker without the Python that ``spark.pyspark.python`` names, or with another minor version."""

_Result = TypeVar("_Result")


class OtherLibrariesError(TerminalError):
    """The workers have other libraries than the driver: the versions of both by library, None if it is missing."""

    driver: Mapping[str, str | None]
    worker: Mapping[str, str | None]


class SilentWorkerError(TransientError):
    """No worker could start the Python of the driver."""

    driver: Mapping[str, str | None]


class WorkerLibraries(NamedTuple):
    """The libraries of a worker that are not the driver's: the answer of a task that was not begun there.

    Attributes:
        versions: by library; None if it is missing.
    """

    versions: Mapping[str, str | None]


class CheckedTask(Generic[_Result]):
    """A function that is unpacked only in workers with the libraries of the driver: its modules need them.

    Each worker looks by itself, with each task. A job of its own that asks first would take a second of every phase,
    and it would ask one worker.

    Args:
        function: to call there.
    """

    def __init__(self, function: Callable[[int], _Result]) -> None:
        from pyspark.serializers import CloudPickleSerializer

        self._driver = found_libraries()
        self._packed: bytes = CloudPickleSerializer().dumps(function)

    def __call__(self, number: int) -> _Result | WorkerLibraries:
        """The function's result, or the libraries of this worker where they are not the driver's."""
        found = found_libraries()
        if found != self._driver:
            return WorkerLibraries(found)
        function: Callable[[int], _Result] = pickle.loads(self._packed)  # noqa: S301 - the driver's own
        return function(number)


def refuse_other_libraries(worker: WorkerLibraries) -> NoReturn:
    """Stops a job whose workers have other libraries than the driver: rows and documents pass between them.

    Args:
        worker: the answer of one of them.

    Raises:
        OtherLibrariesError: naming every library that it lacks or has in another version.
    """
    driver = found_libraries()
    raise OtherLibrariesError(
        f"the Spark workers have {', '.join(_differences(driver, worker.versions))}: run them from the driver's "
        "environment, which `make env` packs for spark.archives, or from the same image",
        driver=driver,
        worker=worker.versions,
    )


def refuse_workers_without_python(said: str) -> None:
    """Names the way out if Spark says that no worker could start the driver's Python.

    Args:
        said: the sentence with which Spark gave up.

    Raises:
        SilentWorkerError: that is what it says.
    """
    if any(sign in said for sign in _NO_PYTHON):
        driver = found_libraries()
        raise SilentWorkerError(
            f"the Spark workers do not start Python {driver['Python']}: set spark.pyspark.python to one that is there; "
            f"{said}",
            driver=driver,
        )


def found_libraries() -> dict[str, str | None]:
    """The versions here; None for a library that is not installed."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, **{name: _version(name) for name in _LIBRARIES}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _differences(driver: Mapping[str, str | None], worker: Mapping[str, str | None]) -> Iterator[str]:
    for name, found in driver.items():
        if worker[name] is None and found is not None:
            yield f"no {name}"
        elif worker[name] != found:
            yield f"{name} {worker[name]} instead of {found}"
