"""A copy of the running interpreter and its standard library that works wherever it is unpacked."""
# ruff: noqa: S603 (it runs Python)

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

__all__ = ["BoundInterpreterError", "copy_interpreter", "loaded_from", "site_folder"]

_LEFT_OUT: Final = (
    "__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "test", "tests", "tkinter", "turtledemo",
)  # fmt: skip
_LOADED: Final = """
import json, sys
libraries = [line.split(maxsplit=5)[-1] for line in open("/proc/self/maps") if "libpython" in line]
print(json.dumps([sys.prefix, sys.base_prefix, *libraries]))
"""
_SCRIPT: Final = """\
#!/bin/sh
# This Python looks for its shared library where it was built.
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/python3-bound" "$@"
"""
_SITE: Final = "import site; print(site.getsitepackages()[-1])"


class BoundInterpreterError(Exception):
    """The interpreter works in its own folder only."""


def copy_interpreter(folder: Path) -> Path:
    """Copies program and standard library below a folder, without tests and tools; the copy's program.

    CPython finds its library beside its program, so a copy needs no setting. What it takes from the machine are the C
    library and those that extension modules ask for, such as OpenSSL's.

    Raises:
        BoundInterpreterError: the copy still runs on files of the original.
    """
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, folder / library.relative_to(sys.base_prefix), ignore=shutil.ignore_patterns(*_LEFT_OUT))
    program = folder / "bin" / "python3"
    program.parent.mkdir()
    original = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]  # noqa: SLF001
    shutil.copy(original, program)
    program.with_name("python").symlink_to(program.name)
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        _bring_shared_library(program)
    for place in loaded_from(program):
        if not Path(place).is_relative_to(folder.resolve()):
            raise BoundInterpreterError(
                f"a copy of {sys.executable} still runs on {place}: make the environment with a Python that can be "
                "moved, such as Debian's, the python images', or one that uv or conda installed"
            )
    return program


def _bring_shared_library(program: Path) -> None:
    """Many look for it where they were built: then a script of the program's name says where it is."""
    shared = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME"))
    library = program.parents[1] / "lib"
    shutil.copy(shared, library)
    if str(library.resolve() / shared.name) not in loaded_from(program):
        program.rename(program.with_name("python3-bound"))
        program.write_text(_SCRIPT)
        program.chmod(0o755)


def loaded_from(program: Path) -> list[str]:
    """The prefixes of an interpreter, and the shared library it runs on, if there is one."""
    done = subprocess.run([program.resolve(), "-IB", "-c", _LOADED], env={}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def site_folder(program: Path) -> Path:
    """The folder in which an interpreter looks for packages; Debian's looks in another one than others."""
    done = subprocess.run([program, "-IB", "-c", _SITE], env={}, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
