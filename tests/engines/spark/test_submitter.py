"""A driver whose submitter is killed ends, and one that cannot see its submitter goes on."""

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from icefloe.engines.spark.submitter import end_with_submitter, submitter_variables

ROOT = Path(__file__).parents[3]
DRIVER = """
import os, sys, threading
from icefloe.engines.spark.submitter import end_with_submitter
end_with_submitter(os.environ)
sys.stdout.write("watching\\n")
sys.stdout.flush()
threading.Event().wait()
"""


def test_a_driver_ends_when_the_process_that_submitted_it_was_killed() -> None:
    with ExitStack() as started:
        submitter = started.enter_context(subprocess.Popen(["sleep", "600"]))
        started.callback(submitter.kill)
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "ICEFLOE_SUBMITTER_PID": str(submitter.pid)}
        command = [sys.executable, "-c", DRIVER]
        driver = started.enter_context(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True))
        started.callback(driver.kill)
        assert driver.stdout is not None
        assert driver.stdout.readline() == "watching\n"
        assert driver.poll() is None
        submitter.kill()
        submitter.wait()
        assert driver.wait(timeout=60) == 75


def test_a_driver_that_cannot_see_its_submitter_goes_on() -> None:
    ended: list[int] = []
    pid = str(pid_that_is_gone())
    elsewhere = {"ICEFLOE_SUBMITTER_PID": pid, "ICEFLOE_SUBMITTER_SCOPE": "another boot pid:[1]"}
    for environ in ({}, {"ICEFLOE_SUBMITTER_PID": pid}, elsewhere):
        end_with_submitter(environ, end=ended.append)
    assert ended == []
    assert not [thread for thread in threading.enumerate() if thread.name == "submitter"]


def test_a_driver_whose_submitter_was_killed_before_it_began_ends_at_once() -> None:
    ended: list[int] = []
    end_with_submitter({**submitter_variables(), "ICEFLOE_SUBMITTER_PID": str(pid_that_is_gone())}, end=ended.append)
    assert ended == [75]


def test_an_application_gets_the_pid_of_its_submitter() -> None:
    assert submitter_variables()["ICEFLOE_SUBMITTER_PID"] == str(os.getpid())


def pid_that_is_gone() -> int:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    return gone.pid
