"""The second witness of a batch: the numbers of rows in the table's own snapshot summaries."""

from collections.abc import Sequence

from icefloe.audit.sums import AuditError, Sums
from icefloe.batch.plan_document import Plan
from icefloe.batch.report import SummaryCheck
from icefloe.pipeline.option_values import SummaryMismatchOption


def check_summaries(
    plan: Plan, handed_on: Sums, *, on_summary_mismatch: SummaryMismatchOption
) -> tuple[tuple[SummaryCheck, ...], tuple[str, ...]]:
    """Compares inserts less deletes of each step with the summaries of its snapshots.

    Args:
        plan: plan of the batch.
        on_summary_mismatch: setting of the pipeline as it is now.
        handed_on: sums by step of the rows that map tasks handed on. Net changes cannot be used, because they no longer
            show each step.

    Returns:
        A check per step, and a warning for each that differs.

    Raises:
        AuditError: one differs and the pipeline does not accept that.
    """
    counts = handed_on.signed_counts()
    checks = tuple(
        SummaryCheck(change_ordinal=ordinal, expected=expected, found=counts.get(ordinal, 0))
        for ordinal, expected in enumerate(plan.summary_row_deltas)
    )
    sentences = tuple(_sentences(plan, checks))
    if sentences and on_summary_mismatch == "fail":
        raise AuditError(
            f"{sentences[0]}; nothing was committed: if a writer is known to write wrong summaries, set "
            "on_summary_mismatch: warn",
            sentences=sentences,
        )
    return checks, sentences


def _sentences(plan: Plan, checks: Sequence[SummaryCheck]) -> list[str]:
    return [
        f"snapshot {plan.steps[check.change_ordinal].commit_snapshot_id} of {plan.table} says that it changed the "
        f"number of rows by {check.expected}, its data files say by {check.found}"
        for check in checks
        if check.expected is not None and check.expected != check.found
    ]
