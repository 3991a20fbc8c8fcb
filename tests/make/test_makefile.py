import os
import re
import shutil
import subprocess
from pathlib import Path

from make import locks

ROOT = Path(__file__).parents[2]


def make(*arguments: str) -> str:
    # What a make around this test was started with is none of this one's business.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def pins(lock: str) -> dict[str, set[str]]:
    """Each package of a lock with its versions: some have one for older Pythons."""
    found: dict[str, set[str]] = {}
    for name, version, _ in locks.pins(ROOT / lock):
        found.setdefault(name, set()).add(version)
    return found


def test_make_alone_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert [line.split()[1] for line in make().splitlines()] == phony[1].split()


def test_continuous_integration_runs_every_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set", "cd"))]
    assert commands == ["export ICEFLOE_SKIP_NOTHING=1", "make test", "exec make extended"]
    assert shutil.which(str(script)), "not executable"


def test_each_test_is_part_of_make_test_or_of_make_extended() -> None:
    chosen = {target: make("--dry-run", "--always-make", target) for target in ("test", "extended")}
    assert '-m "not extended" tests plugins/icefloe make' in chosen["test"]
    assert "-m extended tests" in chosen["extended"]


def test_nothing_is_installed_whose_hash_no_lock_names() -> None:
    commands = [line for line in make("--dry-run", "--always-make", "check").splitlines() if " install " in line]
    assert len(commands) == 4
    for command in commands:
        assert "--editable ." in command if "--require-hashes" not in command else " -r " in command


def test_the_locks_agree_on_every_version() -> None:
    runtime = pins("requirements.txt")
    for lock in ("requirements-dev.txt", "demo/requirements.txt", "stack/requirements.txt"):
        for name, versions in pins(lock).items():
            assert versions <= runtime.get(name, versions), name


def test_spark_and_its_client_have_one_version_because_they_overwrite_each_other() -> None:
    runtime = pins("requirements.txt")
    assert runtime["pyspark"] == runtime["pyspark-client"] == {"4.1.3"}
