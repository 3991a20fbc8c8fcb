import subprocess
import sys
from pathlib import Path

from demo.environment import ROOT

PRINTS = """
import subprocess, sys
from pathlib import Path
from demo.process_output import output_to, own_output
own = own_output()
print("before")
try:
    with output_to(Path(sys.argv[1])):
        print("from Python")
        sys.stdout.flush()
        subprocess.run(["sh", "-c", "echo from a child; echo its error >&2"], check=True)
        print("to the screen", file=own, flush=True)
        raise KeyError
except KeyError:
    print("after an error")
"""


def test_output_of_this_process_and_its_children_goes_to_the_file_and_then_to_the_screen_again(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "airflow.log"
    done = subprocess.run(
        [sys.executable, "-c", PRINTS, str(log)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert log.read_text().splitlines() == ["from Python", "from a child", "its error"]
    assert (done.stdout.splitlines(), done.stderr) == (["before", "to the screen", "after an error"], "")
