"""The order, the conditions and the end of services, shown on small ones."""

from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from support.servers.daemons import wait_until
from support.stack.image import Image
from support.stack.service import Mount, Service
from support.stack.service_process import ServiceDiedError
from support.stack.stack import Stack

WAITS = "exec sleep 1000"


@dataclass(kw_only=True)
class Shell(Image):
    """Runs each command by a shell."""

    def prepare(self) -> None:
        self.folders |= {"/inside": self.folder}

    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin"}

    def command(self, service: Service) -> list[str]:
        return ["sh", "-euc", *service.command]


def service(name: str, command: str, *, health: str = "", **needs: str) -> Service:
    return Service(
        name=name, image="shell", command=(command,), environment={"WHO": f"{name}_"}, depends_on=needs,
        health_check=("sh", "-c", health) if health else (), ports=(), published={},
        mounts=(Mount(is_volume=True, source="shared", target="/var/shared"),),
    )  # fmt: skip


def stack(folder: Path, *services: Service, said: list[str] | None = None) -> Stack:
    say = (said if said is not None else []).append
    named = {each.name: each for each in services}
    return Stack(named, folder=folder / "stack", ports={}, say=say, images={"shell": Shell})


def test_a_service_starts_when_what_it_depends_on_is_healthy_or_done(tmp_path: Path) -> None:
    said: list[str] = []
    services = [
        service("last", f"cat /var/shared/ready; {WAITS}", health="true", server="service_healthy"),
        service("first", "echo $WHO > /var/shared/one"),
        service("server", f"cat /var/shared/one; touch /var/shared/ready; {WAITS}",
                health="test -e /var/shared/ready", first="service_completed_successfully"),
    ]  # fmt: skip
    with stack(tmp_path, *services, said=said) as running:
        assert said[:2] == ["first: done", "server: healthy"]
        assert running.process("server").log.read_text() == "first_\n"
        assert running.run("last", ["sh", "-c", "echo $WHO; ls /var/shared"]).stdout == "last_\none\nready\n"
        running.refuse_dead()


def test_the_children_of_a_service_end_with_it(tmp_path: Path) -> None:
    command = f"(trap '' TERM; echo $$ > /var/shared/child; while true; do sleep 0.1; done) & {WAITS}"
    others = set(psutil.Process().children(recursive=True))  # servers of other tests of this process
    with stack(tmp_path, service("parent", command, health="test -s /var/shared/child")):
        children = [child for child in psutil.Process().children(recursive=True) if child not in others]
        assert len(children) >= 2
    assert not [child for child in children if is_alive(child)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ends at this moment
        return False


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (service("broken", "echo no disk; exit 3", health="true"), "broken ended with 3:\nno disk"),
        (service("broken", "echo no disk; exit 3"), "broken ended with 3:\nno disk"),
    ],
)
def test_a_service_that_dies_is_named_and_the_others_are_ended(tmp_path: Path, broken: Service, sentence: str) -> None:
    before = set(psutil.Process().children())
    condition = "service_healthy" if broken.health_check else "service_completed_successfully"
    services = [service("other", WAITS, health="true"), broken, service("next", WAITS, health="true", broken=condition)]
    with pytest.raises(ServiceDiedError, match=sentence), stack(tmp_path, *services):
        pass
    assert set(psutil.Process().children()) <= before


def test_a_service_that_dies_later_is_noticed(tmp_path: Path) -> None:
    dying = service("server", "while [ ! -e /var/shared/end ]; do sleep 0.1; done; exit 4", health="true")
    with stack(tmp_path, dying) as running:
        running.run("server", ["touch", "/var/shared/end"])
        wait_until(lambda: running.process("server").exit_code() is not None, what="its end", seconds=30)
        with pytest.raises(ServiceDiedError, match="server ended with 4"):
            running.refuse_dead()


def test_a_folder_of_this_machine_is_seen_inside_the_image(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.yaml").touch()
    mounted = Mount(is_volume=False, source=str(tmp_path / "pipelines"), target="/inside/pipelines")
    with stack(tmp_path, replace(service("only", WAITS, health="true"), mounts=(mounted,))) as running:
        assert running.run("only", ["ls", "/inside/pipelines"]).stdout == "a.yaml\n"
