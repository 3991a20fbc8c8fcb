"""Mutations of the waits for stores and catalogs: each takes the end from one, or makes one too short."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["WAITS"]

_CLIENTS: Final = ("tests/storage/test_clients.py",)
_FAULTS: Final = "tests/iceberg/catalog/test_catalog_errors.py"
_REST: Final = ("tests/iceberg/catalog/test_bounded_rest.py",)
_SENSOR: Final = ("tests/orchestration/tasks/test_snapshot_sensor.py",)
_TRIGGER: Final = ("tests/orchestration/tasks/test_snapshot_trigger.py",)
_ABSENT: Final = ("tests/orchestration/tasks/test_absent_table.py",)
_PATIENCE: Final = ("tests/test_patience.py",)

WAITS: Final = (
    Mutation(
        name="a store may take the client's own time for a small request",
        path="storage/clients.py",
        before='    return {**connect, "timeout": _text(silence)}\n',
        after="    return connect\n",
        suite=_CLIENTS,
    ),
    Mutation(
        name="a store may keep silent in the middle of a large value",
        path="storage/clients.py",
        before='"read_timeout": _text(silence), ',
        after="",
        suite=_CLIENTS,
    ),
    Mutation(
        name="a store may never answer an upload",
        path="storage/clients.py",
        before='"timeout": _text(patience_seconds * _UPLOAD_SHARE * times)}',
        after='"timeout": "1h"}',
        suite=_CLIENTS,
    ),
    Mutation(
        name="a large value in one request gets the time of a part",
        path="storage/clients.py",
        before='self._client("uploads", times=times)',
        after='self._client("uploads")',
        suite=_CLIENTS,
    ),
    Mutation(
        name="a dead store is asked again as patiently as before",
        path="storage/clients.py",
        before="self._briefly if self._silence.is_recent else self._looks",
        after="self._looks",
        suite=_CLIENTS,
    ),
    Mutation(
        name="a large value that failed makes the next requests hurry",
        path="storage/clients.py",
        before="if is_look and monotonic()",
        after="if monotonic()",
        suite=_CLIENTS,
    ),
    Mutation(
        name="a catalog that drips is waited for while it is opened",
        path="iceberg/catalog/catalogs.py",
        before='opened = patience.wait_for(lambda: make(name, resolved, patience.seconds), "open")',
        after="opened = make(name, resolved, patience.seconds)",
        suite=_REST,
    ),
    Mutation(
        name="a catalog that hangs is waited for while it loads a table",
        path="iceberg/catalog/catalogs.py",
        before='loaded = patience.wait_for(partial(_load, opened, table), f"load {table}")',
        after="loaded = _load(opened, table)",
        suite=("tests/iceberg/catalog/test_catalogs.py",),
    ),
    Mutation(
        name="a catalog decompresses metadata of any size",
        path="iceberg/catalog/catalogs.py",
        before=", metadata_bounded():",
        after=":",
        suite=("tests/iceberg/test_metadata_limits.py",),
    ),
    Mutation(
        name="an answer of a REST catalog may have any size",
        path="iceberg/catalog/bounded_rest.py",
        before='        session.hooks["response"].append(self._read_bounded)\n',
        after="",
        suite=("tests/iceberg/test_metadata_limits.py",),
    ),
    Mutation(
        name="metadata may have any number of keys and items",
        path="iceberg/catalog/metadata_errors.py",
        before="    if excess is None and sum(",
        after="    if False and sum(",
        suite=("tests/iceberg/test_metadata_limits.py",),
    ),
    Mutation(
        name="a request to a REST catalog has no timeout",
        path="iceberg/catalog/bounded_rest.py",
        before="session.request = partial(session.request, **settings)  # type: ignore[method-assign]",
        after="pass",
        suite=_REST,
    ),
    Mutation(
        name="a connection to a database has no timeout",
        path="iceberg/catalog/bounded_sql.py",
        before="parameters.setdefault(name, value)",
        after="pass",
        suite=("tests/iceberg/catalog/test_bounded_sql.py",),
    ),
    Mutation(
        name="a request to AWS has no timeout",
        path="iceberg/catalog/bounded_aws.py",
        before="    session.set_default_client_config(Config(",
        after="    (Config(",
        suite=("tests/iceberg/catalog/test_bounded_aws.py",),
    ),
    Mutation(
        name="a catalog on AWS that takes no more requests ends a run for good",
        path="iceberg/catalog/catalog_errors.py",
        before="isinstance(cause, tuple(_imported(_BY_AWS))) and may_pass(cause):",
        after="False:",
        suite=(f"{_FAULTS}::test_a_fault_of_glue_that_may_pass_is_tried_again",),
    ),
    Mutation(
        name="a fault that a catalog on DynamoDB replaces by another one ends a run for good",
        path="iceberg/catalog/catalog_errors.py",
        before="    cause = _beneath(cause)\n",
        after="",
        suite=(f"{_FAULTS}::test_a_fault_of_dynamodb_that_may_pass_is_tried_again",),
    ),
    Mutation(
        name="a call that was given up is waited for",
        path="patience.py",
        before="done, _ = wait([answer], timeout=seconds)",
        after="done, _ = wait([answer])",
        suite=_PATIENCE,
    ),
    Mutation(
        name="threads that wait for a dead place grow without end",
        path="patience.py",
        before="if len(self.calls) < _MOST_UNANSWERED:",
        after="if True:",
        suite=_PATIENCE,
    ),
    Mutation(
        name="a place that never answers is tried again as often as ever",
        path="patience.py",
        before="_FIRST_PAUSE_SECONDS * 2**doublings",
        after="_FIRST_PAUSE_SECONDS",
        suite=_PATIENCE,
    ),
    Mutation(
        name="each check of validate waits as long as the first",
        path="cli/checklist.py",
        before="return answer_within(seconds_left, check)",
        after="return check()",
        suite=("tests/cli/test_checklist.py",),
    ),
    Mutation(
        name="a sensor that waits fails a try while its catalog is down",
        path="orchestration/tasks/snapshot_sensor.py",
        before="            if not self.waits:\n                raise\n",
        after="            raise\n",
        suite=_SENSOR,
    ),
    Mutation(
        name="a day without an answer counts as a quiet day",
        path="orchestration/tasks/snapshot_trigger.py",
        before="if self._last_failure is not None:",
        after="if False:",
        suite=_TRIGGER,
    ),
    Mutation(
        name="a pipeline that the triggerer cannot read ends the triggerer",
        path="orchestration/tasks/snapshot_trigger.py",
        before="        except Exception as error:",
        after="        except KeyboardInterrupt as error:",
        suite=_TRIGGER,
    ),
    Mutation(
        name="a table whose name is a variable cannot be waited for",
        path="orchestration/tasks/snapshot_trigger.py",
        before='super().__init__(table="namespace.name", **kwargs)',
        after='super().__init__(table=pipeline["data"]["table"], **kwargs)',
        suite=_TRIGGER,
    ),
    Mutation(
        name="trouble of the sensor is never over",
        path="orchestration/tasks/snapshot_trigger.py",
        before="            end_trouble(self._pipeline, _WAITING)\n",
        after="",
        suite=_TRIGGER,
    ),
    Mutation(
        name="a catalog that answers 404 for a moment ends the run",
        path="orchestration/tasks/absent_table.py",
        before="        if not _has_batch(pipeline, open_checkpoint):\n            raise\n",
        after="        if True:\n            raise\n",
        suite=_ABSENT,
    ),
    Mutation(
        name="a table that is missing for good is waited for",
        path="orchestration/tasks/absent_table.py",
        before="if now - self._since >= _LONGEST:",
        after="if False:",
        suite=_ABSENT,
    ),
    Mutation(
        name="a table that is missing now and then is missing for long",
        path="orchestration/tasks/absent_table.py",
        before="            self._since = None\n            return\n",
        after="            return\n",
        suite=_ABSENT,
    ),
)
