from iceberg.scan.fake_manifests import ADDED, data
from icefloe.iceberg.scan.changed_files import FileTerm, StepTerms
from icefloe.iceberg.scan.delete_file_index import NO_DELETES
from icefloe.iceberg.scan.scan_tasks import row_ids_of_steps, scan_tasks

Terms = list[tuple[int, list[FileTerm]]]


def term(path: str, weight: int, first_row_id: int | None, **constants: int) -> FileTerm:
    entry = data(path, ADDED, 1, first_row_id=first_row_id, constants=constants)
    return FileTerm(entry=entry, weight=weight, delete_files=NO_DELETES)


def read(terms: Terms) -> list[tuple[str, int | None, list[int]]]:
    """Each task: its file, the row ids it is read with, and the steps that it is read for."""
    return [
        (task.data_file.path, task.data_file.first_row_id, [each.change_ordinal for each in task.terms])
        for task in scan_tasks([(ordinal, StepTerms(each)) for ordinal, each in terms], row_ids_of_steps(terms))
    ]


def test_one_file_without_row_ids_takes_them_from_its_step() -> None:
    terms = [(0, [term("a", -1, None), term("b", 1, 7)]), (1, [term("b", -1, 7), term("c", 1, 9)])]
    assert row_ids_of_steps(terms) == {0: {}, 1: {"b": 7, "c": 9}}
    assert read(terms) == [("a", None, [0]), ("b", None, [0]), ("b", 7, [1]), ("c", 9, [1])]


def test_a_file_whose_steps_give_it_other_row_ids_is_read_with_each() -> None:
    terms = [
        (0, [term("a", 1, 0)]),
        (1, [term("a", -1, 0), term("b", 1, 5)]),
        (2, [term("b", -1, 20), term("a", 1, 30)]),
    ]
    assert read(terms) == [("a", 0, [0, 1]), ("a", 30, [2]), ("b", 5, [1]), ("b", 20, [2])]


def test_a_file_in_two_partitions_has_other_row_ids_in_each() -> None:
    terms = [(0, [term("a", -1, 0, day=1), term("a", -1, 10, day=2), term("b", 1, 20)])]
    assert read(terms) == [("a", 0, [0]), ("a", 10, [0]), ("b", 20, [0])]


def test_steps_that_only_add_or_only_remove_read_no_file_again() -> None:
    terms = [
        (0, [term("a", 1, None)]),
        (1, [term("a", -1, 10), term("b", 1, 30)]),
        (2, [term("b", -1, 50)]),
    ]
    assert row_ids_of_steps(terms) == {1: {"a": 10, "b": 30}}
    assert read(terms) == [("a", 10, [0, 1]), ("b", 30, [1, 2])]


def test_without_row_ids_for_identity_every_file_is_read_once() -> None:
    terms = [(0, [term("a", -1, None), term("b", 1, 7)]), (1, [term("b", -1, 9), term("a", 1, 5)])]
    assert [
        task.data_file.path for task in scan_tasks([(ordinal, StepTerms(each)) for ordinal, each in terms], {})
    ] == ["a", "b"]
