"""Installed packages with all that they need, found by their metadata."""

import shutil
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["MissingPackageError", "closure", "copy_packages", "library_requirements", "sink_clients"]

_PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
_SINKS: Final = ("opensearch", "kafka", "dynamodb")
_LEFT_OUT: Final = {"__pycache__", "tests", "include", "RECORD"}


class MissingPackageError(Exception):
    """A package is not installed."""


def library_requirements() -> list[str]:
    """The packages that icefloe itself imports, without those of extras."""
    written = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["dependencies"]
    return [Requirement(each).name for each in written]


def sink_clients() -> list[str]:
    """The packages by which tasks reach sinks and tables of DynamoDB, of each whose packages are installed here."""
    extras = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    found: list[str] = []
    for sink in _SINKS:
        with suppress(MissingPackageError):
            closure(extras[sink])
            found += [each for each in extras[sink] if each not in found]
    return found


def closure(requirements: Iterable[str]) -> list[Distribution]:
    """The installed distributions of requirements and of all that these need here, by name.

    Raises:
        MissingPackageError: one is not installed.
    """
    found: dict[str, Distribution] = {}
    left = [Requirement(each) for each in requirements]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name in found and not requirement.extras:
            continue
        try:
            found[name] = distribution(requirement.name)
        except PackageNotFoundError as cause:
            raise MissingPackageError(
                f"{requirement.name} is not installed next to icefloe: install it first"
            ) from cause
        left += _needs(found[name], requirement.extras)
    return [found[name] for name in sorted(found)]


def copy_packages(distributions: Iterable[Distribution], folder: Path) -> None:
    """Copies what was installed of distributions, without programs, tests, headers and the installer's list of them."""
    for each in distributions:
        for path in each.files or ():
            if path.parts[0] == ".." or _LEFT_OUT & set(path.parts):
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path.locate(), target)


def _needs(found: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement
