"""Damages that are led by the branches which they reach in our readers, tried by atheris until the time is over.

    PYTHONPATH=plugins:tests python -m fuzz.guided --seconds 60 "Avro files" manifests

Without names it tries all readers, each in a process of its own. A finding ends the process with the bytes in the
folder that it names; such bytes become a case of tests/fuzz.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

_MOST_CPU_SECONDS: Final = 20.0
_MOST_MIB: Final = 2048
_LONGEST_BYTES: Final = 1 << 16


def main(arguments: list[str]) -> int:
    """Try the readers one after another; the exit code is 1 if one of them had a finding."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.guided", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="readers; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each reader")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.here:
        _try_out(given.names[0], given.seconds)
    return max((_in_a_process(name, given.seconds) for name in given.names or _names()), default=0)


def _names() -> list[str]:
    from fuzz.foreign_readers import READERS

    return [name for name, reader in READERS.items() if reader.most_examples is None]


def _in_a_process(name: str, seconds: int) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.guided", "--here", "--seconds", str(seconds), name],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = done.stderr.splitlines()
    tried = next((line for line in reversed(said) if line.startswith("Done ")), "stopped by a finding")
    sys.stdout.write(f"{name}: {tried}\n")
    if done.returncode:
        sys.stdout.write("\n".join(said[-60:]) + "\n")
    return int(done.returncode != 0)


def _try_out(name: str, seconds: int) -> None:
    """Never returns: atheris ends the process."""
    import atheris

    with atheris.instrument_imports(include=["icefloe"]):
        from fuzz.foreign_readers import READERS
        from icefloe.errors import IcefloeError
    reader = READERS[name]
    folder = Path(tempfile.mkdtemp(prefix="icefloe-fuzz-"))
    for part in ("valid", "corpus", "found"):
        (folder / part).mkdir()
    samples = reader.valid(folder / "valid")
    for number, sample in enumerate(samples):
        (folder / "corpus" / str(number)).write_bytes(sample)
    path = folder / "damaged.yaml"
    right = []
    for sample in samples:
        path.write_bytes(sample)
        right.append(reader.read(path))

    def read(data: bytes) -> None:
        path.write_bytes(reader.repair(data))
        started = time.process_time()
        try:
            found: Any = reader.read(path)
        except IcefloeError:
            found = None
        assert time.process_time() - started < _MOST_CPU_SECONDS, "too slow"
        # A bit of LZ4's that means nothing may differ.
        assert found is None or not reader.is_sealed or found in right, "damaged bytes were taken for valid ones"

    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={_MOST_MIB}", f"-max_len={_LONGEST_BYTES}"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/found/", str(folder / "corpus")], read)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
