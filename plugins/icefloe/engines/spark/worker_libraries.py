"""A check that Spark's workers have the libraries of the driver, by a task that needs none of them."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, TypeVar

from icefloe.errors import TerminalError, TransientError

_LIBRARIES: Final = ("pyarrow", "numpy", "obstore", "lz4", "pyroaring", "pyiceberg", "pydantic")

_Result = TypeVar("_Result")


class OtherLibrariesError(TerminalError):
    """The workers have other libraries than the driver: the versions of both by library, None if it is missing."""

    driver: Mapping[str, str | None]
    worker: Mapping[str, str | None]


class SilentWorkerError(TransientError):
    """No worker ran a task that needs nothing but Python."""

    driver: Mapping[str, str | None]


class ProbingEngine(Protocol):
    """Hands numbers to a function on the workers."""

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results, in the order of ``numbers``."""
        ...


def refuse_other_libraries(engine: ProbingEngine) -> None:
    """Stops a job whose workers have other libraries than the driver: rows and documents pass between them.

    One task asks one worker: all of them unpack the same archive or run the same image. If one worker differs all the
    same, its tasks report the error.

    Raises:
        OtherLibrariesError: naming every library that a worker lacks or has in another version.
        SilentWorkerError: not even that task was completed: no Python, another minor version of it, or lost executors.
    """
    driver = found_libraries(0)
    try:
        found = engine.map(found_libraries, [0])
    except TransientError as error:
        raise SilentWorkerError(
            "no Spark worker ran the task that asks for its libraries: set spark.pyspark.python to a Python "
            f"{driver['Python']} there; {error.sentence}",
            driver=driver,
        ) from error
    for worker in found:
        differing = list(_differences(driver, worker))
        if differing:
            raise OtherLibrariesError(
                f"the Spark workers have {', '.join(differing)}: run them from the driver's environment, which "
                "`make env` packs for spark.archives, or from the same image",
                driver=driver,
                worker=worker,
            )


def found_libraries(_: int) -> dict[str, str | None]:
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
