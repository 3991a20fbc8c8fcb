"""Each package is a room: its ``__init__`` is the map, and ``__all__`` names what other rooms may import."""

import ast
import importlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import icefloe

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "plugins" / "icefloe"
LINE = re.compile(r"^- `(\w+)`: \S.*$", re.MULTILINE)

ROOMS = {
    ".".join(file.parent.relative_to(ROOT / "plugins").parts): file.parent
    for file in sorted(LIBRARY.rglob("__init__.py"))
    if file.parent != LIBRARY
}
MODULES = {
    ".".join(file.relative_to(ROOT / "plugins").with_suffix("").parts): file
    for file in sorted(LIBRARY.rglob("*.py"))
    if file.stem != "__init__"
}
ENTRIES = [*(ROOT / "plugins").glob("*.py"), *(ROOT / "dags").glob("*.py"), *(ROOT / "spark_jobs").glob("*.py")]
MOST_CROSSING_NAMES = 250
MOST_PUBLIC_NAMES = 500
FURTHER = [*(ROOT / "demo").glob("*.py")]
"""The demo uses the library as its own rooms do. Tests and benchmarks look inside."""


@cache
def modules_of(room: str) -> frozenset[str]:
    return frozenset(file.stem for file in ROOMS[room].glob("*.py")) - {"__init__"}


def folders_of(room: str) -> set[str]:
    return {folder.name for folder in ROOMS[room].iterdir() if folder.is_dir() and folder.name != "__pycache__"}


@cache
def shown_by(room: str) -> frozenset[str]:
    return modules_of(room) & set(getattr(importlib.import_module(room), "__all__", ()))


@cache
def entered_by(file: Path) -> Sequence[tuple[str, str]]:
    """The modules of other rooms that a file imports, as (room, module)."""
    return list(_entered_by(file))


def _entered_by(file: Path) -> Iterator[tuple[str, str]]:
    own = ".".join(file.parent.relative_to(ROOT / "plugins").parts) if file.is_relative_to(LIBRARY) else ""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        modules = [f"{node.module}.{alias.name}" for alias in node.names] if node.module in ROOMS else [node.module]
        for room, _, module in (each.rpartition(".") for each in modules):
            # What all rooms of a package share lies in the package itself.
            if room in ROOMS and module in modules_of(room) and not f"{own}.".startswith(f"{room}."):
                yield room, module


def names_used_by(file: Path) -> Iterator[tuple[str, str]]:
    """The names that a file takes from modules of other rooms, by import or as attributes of an imported module."""
    own = ".".join(file.parent.relative_to(ROOT / "plugins").parts) if file.is_relative_to(LIBRARY) else ""
    tree = ast.parse(file.read_text())
    aliases = {}
    taken = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in MODULES:
                    aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif node.module in MODULES:
                    taken.append((node.module, alias.name))
    taken.extend(
        (aliases[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    )
    for module, name in taken:
        room = module.rpartition(".")[0]
        if room == "icefloe" or not f"{own}.".startswith(f"{room}."):
            yield module, name


@cache
def public_names(file: Path) -> Sequence[str]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def sorting(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions, as Ruff sorts them."""
    return not name.isupper(), not name[0].isupper(), name


def test_a_map_names_each_module_and_each_room_inside_once() -> None:
    named = {room: sorted(LINE.findall(importlib.import_module(room).__doc__ or "")) for room in ROOMS}
    wrong = {room: names for room, names in named.items() if names != sorted(modules_of(room) | folders_of(room))}
    assert not wrong, wrong


def test_the_map_of_the_house_names_every_room_and_module_in_it() -> None:
    named = LINE.findall(icefloe.__doc__ or "")
    there = {path.stem for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(named) == sorted(there - {"__init__", "__main__"})


def test_the_public_names_of_a_room_are_sorted() -> None:
    shown = {room: list(getattr(importlib.import_module(room), "__all__", ())) for room in ROOMS}
    unsorted = {room: names for room, names in shown.items() if names != sorted(names)}
    assert not unsorted, unsorted


def test_no_room_imports_what_another_keeps_to_itself() -> None:
    assert [
        f"{file.relative_to(ROOT)} imports {room}.{module}"
        for file in [*sorted(LIBRARY.rglob("*.py")), *ENTRIES]
        for room, module in entered_by(file)
        if module not in shown_by(room)
    ] == []


def test_no_room_shows_what_nobody_enters_for() -> None:
    entered = {found for file in [*LIBRARY.rglob("*.py"), *ENTRIES, *FURTHER] for found in entered_by(file)}
    assert {(room, module) for room in ROOMS for module in shown_by(room)} - entered == set()


@cache
def uses() -> Sequence[tuple[Path, str, str]]:
    """Each use of a name by another room, as (file, module, name)."""
    files = [*LIBRARY.rglob("*.py"), *ENTRIES, *FURTHER]
    return [(file, module, name) for file in files for module, name in names_used_by(file)]


def test_a_module_names_in_all_what_other_rooms_use_and_nothing_else() -> None:
    used = defaultdict(set)
    for _, module, name in uses():
        used[module].add(name)
    shown = {module: public_names(file) for module, file in MODULES.items()}
    assert {module: names for module, names in shown.items() if names != sorted(names, key=sorting)} == {}
    assert {module: set(names) for module, names in shown.items() if names} == {k: v for k, v in used.items() if v}


def test_no_more_names_cross_from_one_package_into_another_than_did() -> None:
    """A caller that needs many names of a package does its work: it asks there for the one thing that it wants."""
    library = [(file.relative_to(LIBRARY).parts[0], *use) for file, *use in uses() if file.is_relative_to(LIBRARY)]
    crossing = {(module, name) for own, module, name in library if module.split(".")[1] != own.removesuffix(".py")}
    assert len(crossing) <= MOST_CROSSING_NAMES


def test_no_more_names_are_public_than_were() -> None:
    """A loader or a planner of a value is a method of its class, so that the class is the one name to import."""
    assert sum(len(public_names(file)) for file in MODULES.values()) <= MOST_PUBLIC_NAMES


def imported_by(module: str, file: Path) -> set[str]:
    """The modules of the library that a module imports, also inside of functions and for types alone."""
    froms = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module]
    named = {f"{node.module}.{alias.name}" for node in froms for alias in node.names} | {str(n.module) for n in froms}
    return (named & MODULES.keys()) - {module}


def test_no_module_leads_back_to_itself_by_imports() -> None:
    imports = {module: imported_by(module, file) for module, file in MODULES.items()}
    assert list(TopologicalSorter(imports).static_order())


def test_a_map_task_loads_few_modules() -> None:
    """A map task is a plain function: it needs no catalog, no checkpoint, no sink and no pipeline file."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, icefloe.batch.map.write_map_output; print(*sys.modules)"],
        env={"PYTHONPATH": str(LIBRARY.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ours = {each for each in loaded if each.startswith("icefloe.")} - set(ROOMS)
    assert len(ours) <= 50
    assert [each for each in ours if re.match(r"icefloe\.(checkpoint\.log|sinks|engines|pipeline)", each)] == []
