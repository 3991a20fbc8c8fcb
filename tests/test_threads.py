import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from icefloe import threads
from icefloe.threads import BegunThread, map_in_threads
from support.pipelines.workspace import ROOT

STARVED = """
import os, re, resource, signal, threading
from pathlib import Path
from icefloe import threads

def used_bytes():
    return int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

threads._BIRTH_SECONDS = 1
stack_bytes = 8 << 20
threading.stack_size(stack_bytes)
for more in range(0, 48, 2):
    child = os.fork()
    if not child:
        signal.alarm(20)
        limit = used_bytes() + stack_bytes + (more << 12)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            threads.BegunThread(target=lambda: None, name="starved").start()
        except MemoryError as error:
            os._exit(1 + ("before it began" in str(error)))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Starts a thread with ever a little more memory than its stack takes; prints what came of each."""


def test_a_thread_whose_first_call_gets_no_memory_is_a_lack_of_memory_and_no_endless_wait() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED], env={"PYTHONPATH": str(ROOT / "plugins")}, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    outcomes = {int(line) for line in done.stdout.split()}
    assert outcomes <= {0, 1, 2}, done.stderr
    assert 0 in outcomes, "the limits leave no thread enough memory"


def test_a_thread_that_ends_before_it_begins_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_BIRTH_SECONDS", 1)
    monkeypatch.setattr(Thread, "_bootstrap", lambda _: None)
    with pytest.raises(MemoryError, match="ended before it began"):
        map_in_threads(str, range(3), threads=2, name="stillborn")


def test_a_thread_that_ends_before_its_call_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BegunThread, "run", lambda _: None)
    with pytest.raises(MemoryError, match="in the middle of its work"):
        map_in_threads(str, range(3), threads=2, name="short-lived")


def test_a_thread_that_is_started_twice_is_no_lack_of_memory() -> None:
    thread = BegunThread(target=lambda: None, name="once")
    thread.start()
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()
    thread.join()


def test_calls_end_before_the_error_of_the_first_item_is_raised() -> None:
    both, ended = threading.Barrier(2), []

    def fail(number: int) -> None:
        both.wait(10)
        ended.append(number)
        raise RuntimeError(f"call {number}")

    with pytest.raises(RuntimeError, match="call 0"):
        map_in_threads(fail, range(100), threads=2, name="failing")
    assert sorted(ended) == [0, 1]


class OutOfTimeError(BaseException):
    """The time limit of a task, as Airflow raises it."""


@pytest.fixture
def time_limit() -> Iterator[Callable[[], None]]:
    """Ends the time of the main thread, from any thread."""

    def end(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, end)
    yield lambda: os.kill(os.getpid(), signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


def test_a_time_limit_ends_the_wait_for_calls_that_hang(time_limit: Callable[[], None]) -> None:
    both, answer, over = threading.Barrier(2), threading.Event(), threading.Semaphore(0)
    ended = []

    def hang(number: int) -> None:
        if both.wait(10) == 0:
            time_limit()
        answer.wait(20)
        ended.append(number)
        over.release()

    with pytest.raises(OutOfTimeError):
        map_in_threads(hang, range(100), threads=2, name="hanging")
    assert ended == []
    answer.set()
    # CPython 3.11 takes a thread for ended if its join was interrupted.
    assert all(over.acquire(timeout=20) for _ in range(2))
    assert sorted(ended) == [0, 1]
