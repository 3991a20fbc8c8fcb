"""Prints the options of a JVM of Spark that starts from an archive of its classes, which halves what a start costs.

Tests start some forty of them. The archive holds Spark's classes as the JVM keeps them in memory (class-data sharing);
it is made once, in the cache folder, and belongs to one Java and one Spark.
"""
# ruff: noqa: S603 (it runs Spark)

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

__all__ = ["archive_path", "main", "options"]

_CACHE: Final = Path(__file__).parents[1] / ".cache"
_JOB: Final = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(4), 2).map(str).collect()
spark.stop()
"""
_QUIET: Final = "-Xlog:disable"
"""A JVM that cannot use the archive goes without it, and need not say so."""
_SECONDS: Final = 300


def main() -> int:
    """Print the options, or nothing if there is no archive and none can be made."""
    path = archive_path(Path(os.environ["JAVA_HOME"]))
    if path.is_file() or _make(path):
        sys.stdout.write(f"{options(path)}\n")
    return 0


def options(path: Path) -> str:
    """The options of a JVM that uses an archive.

    >>> options(Path("/cache/classes.jsa"))
    '-XX:SharedArchiveFile=/cache/classes.jsa -Xlog:disable'
    """
    return f"-XX:SharedArchiveFile={path} {_QUIET}"


def archive_path(java_home: Path) -> Path:
    """Path of the archive of a Java and of the installed Spark."""
    release = java_home / "release"
    of_java = release.read_text() if release.is_file() else ""
    spark = distribution("pyspark")
    folder = Path(str(spark.locate_file("pyspark")))
    # The JVM compares paths and times of the jars too: another installation of the same Spark is another one.
    content = f"{java_home.resolve()}\n{of_java}\n{spark.version}\n{folder}\n{(folder / 'jars').stat().st_mtime_ns}"
    return _CACHE / f"spark-classes-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsa"


def _make(path: Path) -> bool:
    """Runs the smallest job that uses Python, and keeps the classes that its driver had loaded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spark-classes-", dir=path.parent) as folder:
        job, made = Path(folder, "job.py"), Path(folder, "classes.jsa")
        job.write_text(_JOB)
        environ = {**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made} {_QUIET}"}
        command = ["spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(job)]
        try:
            subprocess.run(command, env=environ, cwd=folder, capture_output=True, timeout=_SECONDS, check=True)
            made.rename(path)
        except (OSError, subprocess.SubprocessError) as failure:
            sys.stderr.write(f"Spark starts without an archive of its classes: {failure}\n")
    return path.is_file()


if __name__ == "__main__":
    sys.exit(main())
