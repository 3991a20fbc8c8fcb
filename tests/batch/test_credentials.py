import os
import pickle

import pytest

from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.run_settings import CREDENTIALS_VARIABLE, Credentials
from icefloe.errors import TerminalError, TransientError
from support.pipelines.workshop import OpenBatch, Workshop

SECRET = "s3cr3t-of-the-lake"


@pytest.fixture
def credentials(workshop: Workshop) -> Credentials:
    return Credentials(
        catalog_properties={
            "name": "lab", "type": "sql", "uri": f"sqlite:///{workshop.folder}/catalog.db",
            "warehouse": f"file://{workshop.folder}/warehouse", "s3.secret-access-key": SECRET,
        },
        storage_options={"secret_access_key": SECRET},
        sink_options={"secret_access_key": SECRET},
    )  # fmt: skip


def test_no_secret_is_in_anything_that_is_stored_or_logged(
    workshop: Workshop, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    workshop.append(range(20))
    for change in (None, lambda: workshop.update([1], value=2.0)):
        if change is not None:
            change()
        prepared = open_and_plan(workshop.session(credentials))
        assert prepared.plan is not None
        assert prepared.reference is not None
        reference = prepared.reference
        batch = OpenBatch(
            plan=prepared.plan, plan_url=reference.plan_url, settings=reference.settings, credentials=credentials
        )
        batch.run_route()
        error = TransientError("the store did not answer", key=SECRET)
        FailedAttempt.save(reference, "shuffle_write", "1", error)
        stored = workshop.stored_objects()
        assert len(stored) > 5
        assert [path for path, data in stored.items() if SECRET.encode() in data] == []
        batch.commit()
        assert SECRET not in repr(batch.reference) + repr(batch.running) + repr(prepared)
        batch.clean_up()
    assert [path for path, data in workshop.stored_objects().items() if SECRET.encode() in data] == []
    assert SECRET not in caplog.text


def test_they_travel_inside_closures_and_through_the_environment(credentials: Credentials) -> None:
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    environment = credentials.to_environment()
    assert list(environment) == [CREDENTIALS_VARIABLE]
    assert Credentials.from_environment({**os.environ, **environment}) == credentials
    assert Credentials.from_environment({}) == Credentials()


def test_pieces_of_long_ones_are_no_longer_than_linux_lets_a_variable_be() -> None:
    credentials = Credentials(storage_options={"root_certificate": "-----BEGIN\n" * 30_000})
    environment = credentials.to_environment()
    assert max(map(len, environment.values())) < 100_000
    assert Credentials.from_environment({**Credentials().to_environment(), **environment}) == credentials
    # The shorter ones of an outer process leave no pieces behind that would count.
    assert Credentials.from_environment({**environment, **Credentials().to_environment()}) == Credentials()
    del environment[f"{CREDENTIALS_VARIABLE}_1"]
    with pytest.raises(TerminalError, match="does not have the form that icefloe gives"):
        Credentials.from_environment(environment)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {}),
        ("{}", {}),
        ('{"host": "h", "password": "pw"}', {"host": "h", "password": "pw", "extra": {}}),
        ('{"extra": {"ca_certs": "/ca"}}', {"extra": {"ca_certs": "/ca"}}),
        ('{"extra": "{\\"ca_certs\\": \\"/ca\\"}"}', {"extra": {"ca_certs": "/ca"}}),
        ('{"host": "h", "extra": null}', {"host": "h", "extra": {}}),
    ],
)
def test_the_connection_of_a_sink_is_read_from_the_variable_that_airflow_reads(
    text: str | None, found: dict[str, object]
) -> None:
    environ = {} if text is None else {"AIRFLOW_CONN_MY-SEARCH": text}
    assert Credentials.from_environment(environ, sink_conn_id="my-search").sink_connection == found
    assert Credentials.from_environment(environ).sink_connection == {}
    handed_over = Credentials(sink_connection={"host": "other"})
    environ |= handed_over.to_environment()
    assert Credentials.from_environment(environ, sink_conn_id="my-search") == handed_over


@pytest.mark.parametrize(
    "text", [SECRET, f"search://ada:{SECRET}@h", f'["{SECRET}"]', "7", f'{{"extra": "{SECRET}"}}', '{"extra": [1]}', ""]
)
def test_a_connection_of_another_form_is_named_by_its_variable_alone(text: str) -> None:
    with pytest.raises(TerminalError, match="the variable AIRFLOW_CONN_SEARCH is no JSON object") as error:
        Credentials.from_environment({"AIRFLOW_CONN_SEARCH": text}, sink_conn_id="search")
    assert SECRET not in str(error.value)
