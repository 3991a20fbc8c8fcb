import os
import secrets
import socket
import subprocess
import sys

import pytest

from demo.servers.free_port import free_port
from demo.servers.server_process import answers


def test_nobody_answers_at_a_free_port() -> None:
    assert not answers(f"http://127.0.0.1:{free_port()}/", 200)()


def test_a_port_is_given_to_one_caller_of_all_processes_until_its_process_ends() -> None:
    code = "import sys; from demo.servers.free_port import free_port; print(free_port([int(sys.argv[1])]))"

    def ask_elsewhere(port: int) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(port)]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    taken = free_port()
    with pytest.raises(OSError, match=f"all ports from {taken} to {taken} are taken"):
        free_port([taken])
    assert f"all ports from {taken} to {taken} are taken" in ask_elsewhere(taken).stderr
    with socket.create_server(("127.0.0.1", taken)):
        pass  # it is free for the server itself
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(OSError, match="end some of its servers"):
        free_port([listening.getsockname()[1]])


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    taken = free_port()
    assert taken < free_port(range(taken, taken + 100)) < taken + 100


def test_no_outgoing_connection_of_linux_begins_at_a_free_port() -> None:
    assert free_port() < 32_768
