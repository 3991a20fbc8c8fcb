"""The state that a test could leave behind in its process, where another file's tests may run next."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["ProcessState"]

_LIBRARY: Final = "icefloe"
_ADDED_AS_USED: Final = ("_abc_", "__")
"""How names begin that Python and Pydantic give a class when it is used; no test replaces them."""
_VARIABLES: Final = ("ICEFLOE_", "AWS_", "AIRFLOW_HOME", "AIRFLOW__", "AIRFLOW_CONN_", "TMPDIR", "HOME", "PATH")
"""How variables begin that a test may set; Spark and Airflow leave others behind by themselves."""


class ProcessState:
    """The objects that the library's names stand for, and settings of the process, at one moment.

    It takes 10 ms, so it is for files of tests, not for each test.
    """

    def __init__(self) -> None:
        self._names = dict(_names_of_library())
        self._settings: dict[str, object] = {
            **{f"os.environ[{key!r}]": value for key, value in os.environ.items() if key.startswith(_VARIABLES)},
            "the current folder": Path.cwd(),
            "the umask": _umask(),
            "logging.disable": logging.root.manager.disable,
        }

    def left_since(self, earlier: "ProcessState") -> list[str]:
        """The names that stand for another object than earlier, and the settings that changed.

        A module that was imported in between, a name that a module lacked and an item of a dictionary do not count.
        """
        names = [
            f"{owner}.{key}"
            for owner, before in earlier._names.items()
            if (now := self._names.get(owner)) is not None
            for key, value in before.items()
            if now.get(key, value) is not value and not key.startswith(_ADDED_AS_USED)
        ]
        settings = self._settings.keys() | earlier._settings.keys()
        return sorted(names) + sorted(key for key in settings if self._settings.get(key) != earlier._settings.get(key))


def _names_of_library() -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == _LIBRARY:
            names: Mapping[str, object] = dict(vars(module))
            yield name, names
            for key, value in names.items():
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{key}", dict(vars(value))


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found
