from histories.generator import WRITERS, generate
from histories.history import Column, History, TableShape, operations_of
from histories.shrinking import shrink


def test_a_seed_always_gives_the_same_history_and_another_seed_another() -> None:
    for writer in WRITERS:
        assert generate(3, writer) == generate(3, writer)
        assert generate(3, writer) != generate(4, writer)


def test_a_history_survives_being_printed() -> None:
    for writer in WRITERS:
        for seed in range(20):
            history = generate(seed, writer)
            assert History.from_json(history.to_json()) == history


def test_only_what_goes_wrong_is_left() -> None:
    shape = TableShape(
        format_version=2, columns=(Column(name="k", type="uuid", required=True), Column(name="v", type="map"))
    )
    rows = [[[1, 2], [3, 4]], [[5, None]]]
    history = History(
        seed=0,
        writer="java",
        shape=shape,
        operations=operations_of(
            [{"do": "append", "files": rows}, {"do": "upgrade"}, {"do": "append", "files": rows}, {"do": "deliver"}]
        ),
    )

    def is_wrong(candidate: History) -> bool:
        """True if a null is appended somewhere after a 3."""
        text = candidate.to_json()
        return "3" in text and "null" in text[text.index("3") :]

    smallest = shrink(history, is_wrong)
    assert [operation.name for operation in smallest.operations] == ["append"]
    assert smallest.operations[0].arguments == {"files": [[[3]], [[None]]]}
    assert smallest.shape == TableShape(format_version=2, columns=(Column(name="k", type="int"),))
