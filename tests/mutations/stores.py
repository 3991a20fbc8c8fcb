"""Mutations of the shuffle, its nodes and the stores."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["STORES"]

_SCHEDULES: Final = ("tests/simulation/test_simulation.py::test_no_schedule_breaks_a_promise",)
_STORAGE_STORE_ERRORS: Final = ("tests/storage/test_store_errors.py",)

STORES: Final = (
    Mutation(name="a reader trusts the offsets of an answer", function="decode_rows", kind=Kind.NEVER,
             suite=("tests/node/test_node_client.py",)),
    Mutation(name="a node reads any path", function="NodeFolder.read", kind=Kind.NEVER,
             suite=("tests/node/test_node_server.py",)),
    Mutation(name="a block takes as much memory as its header says", function="declared_bytes", kind=Kind.NEVER,
             place=1, suite=("tests/shuffle/test_blocks.py",)),
    Mutation(name="in some schedule extents of a damaged map output are read again", function="CollectedBlocks.add",
             kind=Kind.ZERO, place=9, suite=_SCHEDULES),
    Mutation(name="a small file is read whatever its checksum", function="committed_output:_read_index",
             kind=Kind.NEVER, place=1, suite=("tests/shuffle/test_committed_output.py",)),
    Mutation(name="a block is decoded whatever its checksum", function="_Block.batches", kind=Kind.NEVER,
             suite=("tests/shuffle/test_fetch.py",)),
    Mutation(name="in some schedule the winner deletes its own files", function="MapOutputWriter.commit",
             kind=Kind.ALWAYS, suite=_SCHEDULES),
    Mutation(name="in some schedule a void generation counts", function="MapOutputLog._current", kind=Kind.NEVER,
             suite=_SCHEDULES),
    Mutation(name="half an answer is decoded", function="read_piece", kind=Kind.NEVER, place=2,
             suite=("tests/shuffle/test_fetch.py",)),
    Mutation(name="in some schedule a coordinated store creates what is an object already",
             function="CoordinatedStore.create", kind=Kind.NEVER, suite=_SCHEDULES),
    Mutation(name="in some schedule a coordinated store deletes objects only", function="CoordinatedStore.delete",
             kind=Kind.WITHOUT, place=1, suite=_SCHEDULES),
    Mutation(name="a create whose answer was lost takes its own item for another's", function="Items.create",
             kind=Kind.WITHOUT, place=5,
             suite=(
             "tests/storage/test_dynamodb_store.py::test_a_create_whose_answer_was_lost_is_known_as_its_own_and_another_ones_is_not",)),
    Mutation(name="a damaged value is returned", function="DynamodbStore._whole", kind=Kind.NEVER, place=2,
             suite=("tests/storage/test_dynamodb_store.py::test_a_damaged_value_is_never_returned",)),
    Mutation(name="a create whose answer was lost has failed", function="ObjectStore.create", kind=Kind.NEVER, place=1,
             suite=_STORAGE_STORE_ERRORS),
    Mutation(name="a wrong clock is said to be a wrong credential", function="StorePlace._error", kind=Kind.NEVER,
             place=4, suite=_STORAGE_STORE_ERRORS),
    Mutation(name="a file that came out short is linked", function="synced_file", kind=Kind.NEVER,
             suite=("tests/storage/test_local_store.py",)),
)  # fmt: skip
