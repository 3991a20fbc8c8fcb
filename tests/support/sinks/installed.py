"""Packages of sinks and stores, installed as pip does: every process with their folder on its path knows them."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["install_sinks"]


def install_sinks(
    folder: Path, sinks: Mapping[str, str], *, name: str = "further_sinks", group: str = "icefloe.sinks"
) -> None:
    """Writes what tells Python of the entry points of a package.

    Args:
        folder: that is on the path.
        sinks: where the factory is, as ``module:name``, by ``sink.type``.
        name: of the package.
        group: ``icefloe.stores`` for stores, by the scheme of their URLs.
    """
    information = folder / f"{name}-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1\n")
    lines = [f"[{group}]", *(f"{sink_type} = {place}" for sink_type, place in sinks.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
