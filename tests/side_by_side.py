"""Which tests one process runs when several run at once: those that share a JVM, a server or tables."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["GroupScheduling", "group_of"]

DAEMONS: Final = ("tests/e2e/", "tests/servers/test_airflow_on_postgresql", "tests/stack/test_delivery")
"""Several processes each, which need most of a core while they start: one file after another."""


def group_of(node_id: str) -> str:
    """The group of a test by its node id.

    >>> group_of("tests/spark/test_types.py::test_a"), group_of("tests/cli/test_run.py::test_b[1]")
    ('tests/spark', 'tests/cli/test_run.py')
    """
    file, _, _ = node_id.partition("::")
    for folder in ("tests/histories", "tests/spark"):
        # Each has one JVM. The last test of the histories asks what all of them did together.
        if file.startswith(f"{folder}/"):
            return folder
    if file.startswith(DAEMONS):
        return "daemons"
    if file == "tests/cli/test_stopped_runs.py":
        # Each takes seconds, nearly all of which it waits, and shares nothing.
        return node_id
    return file


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out groups, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
