"""The servers that only a profile of docker-compose.yaml starts, as plain processes of their own variables."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from demo.servers.server_process import ServerUnavailableError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.sink import Sink, open_sink
from make.make_env import make_env
from support.missing import missing
from support.stack.run import COMPOSE_FILE, ports_here
from support.stack.service import Translation, load_compose
from support.stack.stack import Stack

pytestmark = [pytest.mark.extended, pytest.mark.servers]

EXAMPLES = COMPOSE_FILE.parent / "stack" / "examples"


@pytest.fixture(params=["flights_search.yaml", "flights_topic.yaml"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sink]:
    """The sink of an example, over the server that its profile starts."""
    settings = Pipeline.load(EXAMPLES / request.param).sink
    profile = settings.type
    env_file = tmp_path / ".env"
    make_env(env_file)
    try:
        others = load_compose(COMPOSE_FILE, env_file)
        services = load_compose(COMPOSE_FILE, env_file, profiles=[profile])
        started = {name: service for name, service in services.items() if name not in others}
        ports = ports_here(started.values(), are_any=True)
        variable = f"AIRFLOW_CONN_{str(settings.conn_id).upper()}"
        translate = Translation(hosts=started, ports=ports, folders={})
        connection = json.loads(translate(services["airflow-scheduler"].environment[variable]))
        with Stack(started, folder=tmp_path / "stack", ports=ports, say=print) as stack:
            yield open_sink(asdict(settings), connection=connection, open_store=lambda _: pytest.fail("unused"))
            stack.refuse_dead()
    except ServerUnavailableError as reason:
        missing(f"the profile {profile} cannot be had here", str(reason))


def test_a_pipeline_may_deliver_to_the_server_of_a_profile(sink: Sink) -> None:
    sink.check()
    sink.close()
