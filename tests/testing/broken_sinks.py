"""Ways to break the sinks in memory, each with the case of the suite that must notice."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from icefloe.testing.conformance import SinkConformance
from testing.suites import IndexSuite, LogSuite

__all__ = ["BROKEN", "BrokenSink"]

_LATE: Final = "test_a_process_that_wakes_up_late_changes_nothing"
_FAILS: Final = "test_a_process_that_fails_at_any_call_is_followed_by_another"
_TAKEN: Final = "test_a_destination_that_is_taken_over_belongs_to_the_new_origin"
_LATE_BEFORE: Final = "test_a_process_of_the_origin_before_that_wakes_up_late_changes_nothing"
_LATE_CLAIM: Final = "test_a_claim_that_wakes_up_late_takes_nothing"
_ARRIVES: Final = "test_batches_arrive_one_after_the_other"
_DIED: Final = "test_a_process_that_wakes_up_after_another_died_leaves_nothing_out"
_READ: Final = "test_reading_back_while_a_load_replaces_everything_gives_the_rows_of_one_moment"
_OTHER: Final = "test_another_origin_is_refused"
_EVOLVES: Final = "test_another_schema_arrives_or_is_refused"
_TWICE: Final = "test_everything_may_be_delivered_twice"


@dataclass(frozen=True, kw_only=True)
class BrokenSink:
    """One way.

    Attributes:
        name: what is wrong, a sentence.
        suite: the suite over the sink.
        before: code that the sink's module has exactly once.
        after: what it is made.
        case: name of the test that must fail.
    """

    name: str
    suite: type[SinkConformance]
    before: str
    after: str
    case: str

    def broken(self) -> SinkConformance:
        """The suite over the broken sink."""
        whole: type[Any] = self.suite.sink  # type: ignore[attr-defined]
        source = Path(str(sys.modules[whole.__module__].__file__)).read_text()
        assert source.count(self.before) == 1, f"the code that {self.name!r} breaks is not there once"
        module = ModuleType("broken")
        exec(compile(source.replace(self.before, self.after), "broken", "exec"), vars(module))
        return type("Broken", (self.suite,), {"sink": getattr(module, whole.__name__)})()


# Of each guard of a sink one.
_WAYS: Final[Mapping[type[SinkConformance], Mapping[str, tuple[str, str, str]]]] = {
    IndexSuite: {
        "documents have no version of their batch": (
            '[(key, begun["version"], row)', '[(key, __import__("time").time_ns(), row)', _LATE,
        ),
        "versions have no generation": (
            'mine = state["generation"] << 32 | batch.batch_number', "mine = batch.batch_number", _TAKEN,
        ),
        "a claim counts whatever came before it": (
            "return False\n        return True", "return True\n        return True", _LATE_CLAIM,
        ),
        "rows are read in two requests": (
            "        yield selected(documents, schema, keys)\n",
            ("        further = self._ask(self._index.scan, self._state()[1].get('live')) if live else []\n"
            "        yield selected([*documents[:3], *further[3:]], schema, keys)\n"),
            _READ,
        ),
        "begin lets anybody in": ("refuse_other(state, batch.origin)", "pass", _OTHER),
        "parts write to the index that is live": (
            'self._index.bulk, begun["index"]', 'self._index.bulk, self._state()[1].get("live")', _ARRIVES,
        ),
        "a name stands for any column": (
            "if any(columns.get(name, field_id) != field_id for", "if any(False for", _EVOLVES,
        ),
        "initial defaults are left out": ("if columns and batch.defaulted", "if False and batch.defaulted", _EVOLVES),
        "a replay from before a later load is written": (
            'if begun.get("is_replaced"):', "if False:",
            "test_a_replay_from_before_a_later_load_brings_nothing_back",
        ),
        "deletes are left out": ("for key, row in rows.items()]", "for key, row in rows.items() if row]", _ARRIVES),
        "refused documents are not counted": (
            'outcomes.count("rejected")', "0", "test_rows_that_are_refused_for_good_are_counted_or_an_error",
        ),
        "a lost request counts as done": (
            'raise TransientError("the index did not answer") from error', "return []", _FAILS,
        ),
        "a busy index counts as done": (
            'raise TransientError("the index is busy")', "return []",
            "test_a_destination_that_refuses_for_ever_is_an_error",
        ),
        "read_back takes no keys": ("schema, keys)", "schema, None)", "test_some_keys_can_be_read_back"),
        "rows without identity are taken": (
            "if not batch.identity:", "if False:",
            "test_rows_without_identity_arrive_in_a_log_and_are_refused_by_a_keyed_sink",
        ),
        "facts of a part are no JSON": (
            "            dead_letters=", '            details={"rows": {1}},\n            dead_letters=', _ARRIVES,
        ),
    },
    LogSuite: {
        "the state is read before older producers are fenced": (
            "epoch = self._init(slot)\n        state = self._state()",
            "state = self._state()\n        epoch = self._init(slot)",
            _LATE,
        ),
        "a part is sent again": ("if not is_there:", "if True:", _TWICE),
        "a take-over fences nobody": ("range(_SLOTS)", "range(0)", _LATE_BEFORE),
        "a claim is read before older ones are fenced": (
            'epoch = self._init("begin")\n        claim = self._state().get("claim", {})',
            'claim = self._state().get("claim", {})\n        epoch = self._init("begin")',
            _LATE_CLAIM,
        ),
        "a fenced producer counts as done": (
            "except (ConnectionError, FencedError, BusyLogError) as error:",
            "except FencedError:\n            pass\n        except (ConnectionError, BusyLogError) as error:",
            _DIED,
        ),
        "before images are left out": (
            "for row in rows.to_pylist()]",
            'for row in rows.to_pylist() if row["_change_type"] != "UPDATE_BEFORE"]',
            _ARRIVES,
        ),
    },
}  # fmt: skip
BROKEN: Final = tuple(
    BrokenSink(name=name, suite=suite, before=before, after=after, case=case)
    for suite, ways in _WAYS.items()
    for name, (before, after, case) in ways.items()
)
"""All of them."""
