"""A network that swallows every packet without a word: a command ends within its patience and names the place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from icefloe.patience import PATIENCE_VARIABLE
from support.missing import missing, require_program
from support.pipelines.workspace import ROOT, Workspace
from support.tiers import extended

pytestmark = pytest.mark.slow

SWALLOWS = (
    "ip tuntap add dev hole mode tun && ip addr add 192.0.2.1/24 dev hole && ip link set hole up && ip link set lo up"
)
"""A network of its own, whose device nobody reads (192.0.2.0/24 is reserved for documentation)."""
NOBODY = "http://192.0.2.77:9000"


@pytest.mark.parametrize("command", ["run", extended("status"), extended("validate"), extended("verify")])
def test_a_command_whose_store_is_behind_a_black_hole_names_it_and_ends(command: str, tmp_path: Path) -> None:
    require_program("unshare")
    require_program("ip")
    workspace = Workspace.create(tmp_path)
    workspace.append(1)
    pipeline = workspace.pipeline(storage="s3://lake/icefloe")
    there = ["unshare", "--net", "sh", "-c", f'{SWALLOWS} || exit 99; exec "$@"', "sh"]
    environ = {
        **os.environ, "PYTHONPATH": str(ROOT / "plugins"), "AWS_ACCESS_KEY_ID": "AKIAKEY",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_ENDPOINT": NOBODY, "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    # On a busy machine the catalog, a file, may use up a little patience before the store is asked.
    for patience in (5, 20, 60):
        done = subprocess.run(
            [*there, sys.executable, "-m", "icefloe", command, str(pipeline)],
            env={**environ, PATIENCE_VARIABLE: str(patience)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        if "catalog 'lab' does not answer" not in said:
            break
    if done.returncode in (1, 99) and "icefloe" not in done.stderr:
        missing("this machine gives a process no network of its own", done.stderr.strip())
    assert done.returncode == 75, done
    assert "s3://lake" in said
