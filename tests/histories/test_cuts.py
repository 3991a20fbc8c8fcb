"""Tables that get their row ids late, or other ones: a step gives the same changes in whatever batch it is read."""

from random import Random

import pytest

from histories.cuts import check_cuts, random_cuts
from histories.generated_arguments import operation_document
from histories.history import Column, History, TableShape, operations_of
from histories.trial import Laboratory

pytestmark = pytest.mark.spark

MODES = ("merge-on-read", "copy-on-write")
ROWS = [[n, n] for n in range(4)]


def history(mode: str, *documents: dict[str, object], format_version: int = 2) -> History:
    shape = TableShape(
        format_version=format_version,
        columns=(Column(name="k", type="long"), Column(name="v", type="int")),
        properties={f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")},
    )
    return History(seed=0, writer="sql", shape=shape, operations=operations_of(documents))


def update(key: int, value: int) -> dict[str, object]:
    return {"do": "update", "column": 1, "value": value, "where": [0, "=", key]}


def every_cut(laboratory: Laboratory, of: History) -> int:
    bench = laboratory.bench(of)
    bench.perform(of)
    assert not bench.refused
    head = bench.head()
    assert head is not None
    steps = bench.trace.steps(None, head)
    assert steps is not None
    found = check_cuts(bench, [None, *(step.end for step in steps)])
    bench.discard()
    return found


def test_a_range_across_the_upgrade_has_the_same_updates(laboratory: Laboratory) -> None:
    upgraded = history(
        "merge-on-read",
        {"do": "append", "files": [ROWS, ROWS]},
        update(0, 1),
        {"do": "upgrade"},
        {"do": "append", "files": [ROWS]},
        update(1, 2),
        update(2, 3),
        update(1, 3),
    )
    assert every_cut(laboratory, upgraded)


def test_a_range_across_a_rewrite_of_manifests_has_the_same_updates(laboratory: Laboratory) -> None:
    manifests = {"do": "call", "procedure": "manifests"}
    rewritten = history(
        "copy-on-write",
        {"do": "append", "files": [ROWS]},
        {"do": "append", "files": [ROWS]},
        manifests,
        update(1, 2),
        manifests,
        update(2, 3),
        update(1, 3),
        format_version=3,
    )
    assert every_cut(laboratory, rewritten)


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_of_row_ids_are_cut_at_random(laboratory: Laboratory, seed: int) -> None:
    random = Random(f"row ids {seed}")
    of = history(
        random.choice(MODES),
        {"do": "append", "files": [ROWS, ROWS]},
        *(_operation(random) for _ in range(random.randint(4, 8))),
        format_version=random.choice((2, 2, 3)),
    )
    bench = laboratory.bench(of)
    bench.perform(of)
    for _ in range(2):
        bounds = random_cuts(bench, random)
        if len(bounds) > 2:
            check_cuts(bench, bounds)
    bench.discard()


def _operation(random: Random) -> dict[str, object]:
    names = {"update": 6, "merge": 3, "delete": 1, "append": 2, "upgrade": 2, "call": 2, "rewrite_manifests": 1}
    [name] = random.choices(list(names), list(names.values()))
    return operation_document(random, "sql", name)
