"""Mutations of what a table says and of what its changes are."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["TABLES"]


TABLES: Final = (
    Mutation(name="a batch whose sums differ is committed", function="Sums.require", kind=Kind.NEVER,
             suite=("tests/batch/deliver/test_commit_batch.py",)),
    Mutation(name="identities give their rows as each piece comes", function="SharedWeights.cancelled",
             kind=Kind.WITHOUT, place=12, suite=("tests/batch/reduce/test_match_rows.py",)),
    Mutation(name="net changes carry the last step that changed their row, not their identity", function="net_changes",
             kind=Kind.FIRST, place=1),
    Mutation(name="a text goes on where a shorter one ends", function="_Text.words", kind=Kind.WITHOUT, place=5,
             suite=("tests/changes/row_hash/test_collisions.py",)),
    Mutation(name="null is the value that lies under it", function="null_mask", kind=Kind.ALWAYS),
    Mutation(name="a catalog on AWS that takes no more requests ends a run for good", function="_error_of",
             kind=Kind.NEVER, place=2,
             suite=(
            "tests/iceberg/catalog/test_catalog_errors.py::test_a_fault_of_aws_that_may_pass_is_tried_again",)),
    Mutation(name="metadata may have any number of keys and items", function="decodable", kind=Kind.NEVER, place=2,
             suite=("tests/iceberg/test_metadata_limits.py",)),
    Mutation(name="a dictionary is no part of a column's bytes", function="identical_columns:_range", kind=Kind.NEVER,
             place=1, suite=("tests/iceberg/files/test_identical_columns.py",)),
    Mutation(name="pins move on after a gap", function="NeededSnapshots.of", kind=Kind.NEVER, place=5,
             suite=("tests/batch/open/test_pin.py",)),
    Mutation(name="the commits since a rollback are left out", function="Passage.find", kind=Kind.SECOND,
             place=2),
    Mutation(name="each run commits pins to the table", function="pin_moves", kind=Kind.NEVER, place=4,
             suite=("tests/batch/open/test_pin.py", "tests/iceberg/history/test_pins.py")),
    Mutation(name="a rollback over snapshots that expired is a gap", function="went_back", kind=Kind.ALWAYS,
             suite=("tests/iceberg/scan/test_rollback_steps.py",)),
    Mutation(name="the deletion vectors of one Puffin file are taken for one", function="DeleteEntry.identity",
             kind=Kind.NONE, place=4),
    Mutation(name="entries that no manifest list counts are decoded", function="ManifestReader._raw_entries",
             kind=Kind.WITHOUT, place=5, suite=("tests/iceberg/manifests/test_manifest_reader.py",)),
    Mutation(name="a few bytes of a manifest list become any number of rows", function="_Records.__iter__",
             kind=Kind.NEVER, suite=("tests/iceberg/manifests/test_manifest_reader.py",)),
    Mutation(name="a null where the table requires a value is delivered as the value of another row",
             function="TakenField.read", kind=Kind.NEVER, place=3, suite=("tests/iceberg/schemas/test_projection.py",)),
    Mutation(name="a column that a file lacks is null where its partition has it", function="_Planner._fill",
             kind=Kind.NEVER, suite=("tests/iceberg/schemas/test_projection.py",)),
    Mutation(name="a snapshot with the id of the cursor's is the cursor's", function="RecordedSnapshot.is_same",
             kind=Kind.ALWAYS, suite=("tests/batch/open/test_reused_ids.py",)),
    Mutation(name="a file that one snapshot of a commit adds and another removes is removed",
             function="changed_files:_net", kind=Kind.SECOND, place=1),
    Mutation(name="a delete file that names a data file of another partition is overlooked in a commit",
             function="DataManifests._reached_in", kind=Kind.NEVER, place=2,
             suite=("tests/iceberg/scan/test_changed_delete_files.py",)),
    Mutation(name="an equality delete reaches rows of its own commit", function="_can_apply", kind=Kind.OTHERWISE,
             place=2),
    Mutation(name="a position delete does not reach rows of its own commit", function="_can_apply", kind=Kind.OTHERWISE,
             place=3),
    Mutation(name="a global equality delete counts as one of a partition", function="_can_apply", kind=Kind.SECOND),
    Mutation(name="a position delete file does not reach the first of the files that it names", function="_may_name",
             kind=Kind.OTHERWISE, place=1),
    Mutation(name="an equality delete does not reach files whose least key is its greatest", function="_is_below",
             kind=Kind.OTHERWISE, place=2),
    Mutation(name="the snapshots of one commit are steps of their own", function="group_commits",
             kind=Kind.NEVER, place=2),
)  # fmt: skip
