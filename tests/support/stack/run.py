"""Run docker-compose.yaml without Docker: each service as a plain process of this machine, on 127.0.0.1."""

import argparse
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from demo.servers.free_port import free_port
from demo.servers.server_process import ServerUnavailableError
from make.make_env import make_env
from support.stack.reader_program import FileRefusedError
from support.stack.service import ENGINES, LOCALHOST, Service, all_ports, load_compose, with_engine
from support.stack.stack import ServiceDiedError, Stack

__all__ = ["COMPOSE_FILE", "DEMO", "main", "ports_here"]

ROOT: Final = Path(__file__).resolve().parents[3]
COMPOSE_FILE: Final = ROOT / "docker-compose.yaml"
DEMO: Final = "demo-flights"
_SECONDS_BETWEEN_LOOKS: Final = 0.5


def main(arguments: Sequence[str]) -> int:
    """The exit code of the demo with ``--until-delivered``; without, it runs until Ctrl-C."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if make_env(options.env_file):
        _say(f"New secrets are in {options.env_file}")
    try:
        with TemporaryDirectory() as pipelines:
            services = load_compose(COMPOSE_FILE, options.env_file, profiles=options.profile)
            if options.engine is not None:
                services = with_engine(services, options.engine, folder=Path(pipelines))
            return _run(services, options)
    except (FileRefusedError, ServerUnavailableError, ServiceDiedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(services: Mapping[str, Service], options: argparse.Namespace) -> int:
    ports = ports_here(services.values(), are_any=options.free_ports)
    with Stack(services, folder=options.folder.resolve(), ports=ports, say=_say) as stack:
        _say_where(services.values(), ports, options)
        try:
            return _follow(stack, until_delivered=options.until_delivered)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _say("Ending everything")
            return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m support.stack.run", description=__doc__)
    parser.add_argument("--env-file", type=Path, default=ROOT / ".env", help="written where it is not there")
    parser.add_argument("--folder", type=Path, default=ROOT / ".stack", help="of all that the services keep")
    parser.add_argument("--free-ports", action="store_true", help="take any free ports instead of the file's own")
    parser.add_argument("--until-delivered", action="store_true", help="end with the exit code of the demo")
    parser.add_argument("--profile", action="append", default=[], help="start the services of this profile too")
    parser.add_argument("--engine", choices=ENGINES, help="run the pipelines with this one instead of their own")
    return parser


def ports_here(services: Iterable[Service], *, are_any: bool) -> dict[int, int]:
    """The port here by the file's own, which is taken where nobody else listens on it."""
    return {port: port if not are_any and _is_free(port) else free_port() for port in all_ports(services)}


def _is_free(port: int) -> bool:
    """True if a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOCALHOST, port))
        except OSError:
            return False
        return True


def _say_where(services: Iterable[Service], ports: Mapping[int, int], options: argparse.Namespace) -> None:
    _say("")
    for service in services:
        for port in service.published:
            _say(f"{service.name}: http://localhost:{ports[port]}")
    _say(f"The login is admin with AIRFLOW_ADMIN_PASSWORD of {options.env_file}; logs are in {options.folder}/logs.")
    _say("" if options.until_delivered else "Ctrl-C ends everything.\n")


def _follow(stack: Stack, *, until_delivered: bool) -> int:
    """Shows what the demo prints, while everything else runs."""
    demo = stack.process(DEMO)
    with demo.log.open(encoding="utf-8", errors="replace") as log:
        while True:
            code = demo.exit_code()
            sys.stdout.write(log.read())
            sys.stdout.flush()
            if code is not None and until_delivered:
                return code
            stack.refuse_dead()
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
