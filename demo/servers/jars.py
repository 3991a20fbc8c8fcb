"""Jars of a Java server, fetched from Maven Central by the Ivy that Spark brings."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError

__all__ = ["Jar", "class_path", "java_program"]

FOLDER: Final = CACHE / "jars"
SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
MODULE: Final = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="icefloe.test" module="server"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A module of Maven Central.

    Attributes:
        classifiers: of its artifacts, the main one having none. Without the main one it comes alone; with it, with all
            that it depends on.
    """

    group: str
    name: str
    version: str
    classifiers: tuple[str, ...] = ("",)

    def to_ivy(self) -> str:
        """The element of an Ivy file."""
        artifacts = "".join(
            f'<artifact name="{self.name}" type="jar" {attribute}/>'
            for attribute in (each and f'm:classifier="{each}"' for each in self.classifiers)
        )
        needed = "true" if "" in self.classifiers else "false"
        return (
            f'<dependency org="{self.group}" name="{self.name}" rev="{self.version}" conf="default->default" '
            f'transitive="{needed}">{artifacts}</dependency>'
        )


def class_path(jars: Sequence[Jar]) -> str:
    """The class path of these jars and of all that they need, fetched into the cache the first time.

    Raises:
        ServerUnavailableError: there is no Java, or they could not be fetched.
    """
    listed = "\n".join(jar.to_ivy() for jar in jars)
    found = FOLDER / f"{hashlib.sha256(listed.encode()).hexdigest()[:16]}.classpath"
    with fetching("jars"):
        if not (found.is_file() and all(Path(jar).is_file() for jar in found.read_text().split(os.pathsep))):
            _fetch(listed, found)
    return found.read_text()


def _fetch(listed: str, found: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=FOLDER) as folder:
        settings, module, made = Path(folder, "settings.xml"), Path(folder, "ivy.xml"), Path(folder, "classpath")
        settings.write_text(SETTINGS.format(cache=FOLDER / "cache"))
        module.write_text(MODULE.format(dependencies=listed))
        [ivy] = Path(str(find_spec("pyspark").origin)).parent.glob("jars/ivy-*.jar")
        done = subprocess.run(
            [java_program(), "-jar", ivy, "-settings", settings, "-ivy", module, "-cachepath", made],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0 or not made.is_file():
            raise ServerUnavailableError(f"the jars of a server could not be fetched:\n{done.stdout[-2000:]}")
        made.write_text(made.read_text().strip())
        made.rename(found)


def java_program() -> str:
    """The Java that Spark would take too.

    Raises:
        ServerUnavailableError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise ServerUnavailableError("this server needs Java 17 or newer: set JAVA_HOME, or use make, which finds one")
    return java
