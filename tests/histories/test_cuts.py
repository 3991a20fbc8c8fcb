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
