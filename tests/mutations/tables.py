"""Mutations of the tables that coordinate stores: docs/deployment.md says what they hold."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["TABLES"]

_TABLES: Final = "tests/storage/test_dynamodb_store.py"

TABLES: Final = (
    Mutation(
        name="an item replaces the one that is there",
        path="storage/dynamodb_items.py",
        before='                    ConditionExpression="attribute_not_exists(#key)",\n',
        after="",
        suite=(f"{_TABLES}::TestTable::test_a_create_keeps_what_is_there",),
    ),
    Mutation(
        name="a create whose answer was lost takes its own item for another's",
        path="storage/dynamodb_items.py",
        before='            if there.get("writer", {}).get("S") == item.writer:\n                return True\n',
        after="",
        suite=(f"{_TABLES}::test_a_create_whose_answer_was_lost_is_known_as_its_own_and_another_ones_is_not",),
    ),
    Mutation(
        name="a value is looked up as it was some time ago",
        path="storage/dynamodb_items.py",
        before="Key=wanted, ConsistentRead=True, **narrow)",
        after="Key=wanted, **narrow)",
        suite=(f"{_TABLES}::TestTable::test_a_missing_key_is_missing",),
    ),
    Mutation(
        name="what a table left undone of a batch stays undone",
        path="storage/dynamodb_client.py",
        before="            requests = answer.get(undone, {}).get(self.access.table)\n",
        after="            requests = None\n",
        suite=(f"{_TABLES}::test_the_rest_of_a_batch_that_the_table_left_undone_is_done_by_further_requests",),
    ),
    Mutation(
        name="a throttled request ends a run for good",
        path="storage/aws_faults.py",
        before="return code_of(cause) in _THROTTLED or status",
        after="return status",
        suite=(f"{_TABLES}::test_a_request_that_was_throttled_failed_or_lost_is_sent_again",),
    ),
    Mutation(
        name="a document from before the store was coordinated is created again",
        path="storage/coordinated_store.py",
        before="        if self._objects.size(key) is not None:\n            return False\n",
        after="",
        suite=(f"{_TABLES}::test_documents_from_before_the_store_was_coordinated_still_count",),
    ),
    Mutation(
        name="a pipeline begins again in a table that has none of its records",
        path="batch/open/recorded_coordination.py",
        before="        if marker.table is not None and place.checkpoint.look().checkpoint_id is None:",
        after="        if False:",
        suite=("tests/cli/test_coordination.py",),
    ),
    Mutation(
        name="abandon says that no batch is open where it reads another checkpoint",
        path="batch/operations/abandoned_batch.py",
        before="            refuse_other_coordination(self)\n",
        after="            pass\n",
        suite=("tests/cli/test_coordination.py",),
    ),
    Mutation(
        name="a run that another one overtakes says that the table lost its records",
        path="batch/open/recorded_coordination.py",
        before="        if marker.table is not None and place.checkpoint.look().checkpoint_id is None:",
        after="        if marker.table is not None:",
        suite=("tests/cli/test_coordination.py",),
    ),
    Mutation(
        name="a value that lost its race stays for ever",
        path="storage/dynamodb_store.py",
        before="        if not is_created:\n            self._large.delete([item])\n",
        after="",
        suite=(f"{_TABLES}::test_a_large_create_that_lost_leaves_no_value",),
    ),
    Mutation(
        name="a value that an item names is removed as unfinished",
        path="storage/dynamodb_store.py",
        before="            if not self._is_named(name):\n",
        after="            if True:\n",
        suite=(
            f"{_TABLES}::test_a_value_whose_writer_died_before_its_item_is_removed_when_it_is_old_or_the_batch_is_over",
        ),
    ),
    Mutation(
        name="a damaged value is returned",
        path="storage/dynamodb_store.py",
        before="        if hashlib.sha256(value).digest() != item.sha256:\n",
        after="        if False:\n",
        suite=(f"{_TABLES}::test_a_damaged_value_is_never_returned",),
    ),
    Mutation(
        name="a coordinated bucket is never tried",
        path="storage/probe.py",
        before="        if store.created_in:\n            store.put",
        after="        if False:\n            store.put",
        suite=("tests/cli/test_coordination.py::test_a_bucket_that_cannot_be_written_is_found_although_the_table_can",),
    ),
    Mutation(
        name="two object services with a bucket of one name share their items",
        path="storage/location.py",
        before="://{rest}{service_of(scheme, usable, os.environ)}",
        after="://{rest}",
        suite=("tests/storage/test_dynamodb_items.py",),
    ),
    Mutation(
        name="a checkpoint in a table belongs to any storage",
        path="storage/location.py",
        before='        place = _TABLE_ITSELF + (_place(given[STORAGE], given) if STORAGE in given else "")\n',
        after="        place = _TABLE_ITSELF\n",
        suite=("tests/cli/test_coordination.py::test_a_checkpoint_in_a_table_is_of_one_storage",),
    ),
    Mutation(
        name="all items of a bucket have one partition key",
        path="storage/dynamodb_client.py",
        before='    shard = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[0]\n',
        after="    shard = _SHARDS[0]\n",
        suite=("tests/storage/test_dynamodb_items.py::test_the_writes_of_many_tasks_meet_many_partition_keys",),
    ),
    Mutation(
        name="a value that a sweep took before it was named is gone for good",
        path="storage/dynamodb_store.py",
        before="        is_created = self._items.create(item) and self._keeps(item, data)\n",
        after="        is_created = self._items.create(item)\n",
        suite=(f"{_TABLES}::test_a_value_that_a_sweep_took_before_it_was_named_is_written_again",),
    ),
    Mutation(
        name="a reader deletes the item of another writer",
        path="storage/dynamodb_items.py",
        before='                ConditionExpression="#writer = :writer",\n',
        after="",
        suite=(f"{_TABLES}::test_a_reader_that_comes_late_deletes_no_item_of_another_writer",),
    ),
    Mutation(
        name="a sweep compares the names of tables alone",
        path="batch/sweep/found_checkpoint.py",
        before="    if table != marker.table:\n",
        after="    if False:\n",
        suite=("tests/cli/test_coordination.py::test_a_sweep_of_another_table_of_that_name_leaves_everything_alone",),
    ),
    Mutation(
        name="each request waits for a silent table as long as the first",
        path="storage/dynamodb_client.py",
        before="        if self._silence.is_recent:",
        after="        if False:",
        suite=(f"{_TABLES}::test_a_table_that_is_silent_is_waited_for_once",),
    ),
    Mutation(
        name="a pipeline without its table begins again",
        path="batch/open/next_batch.py",
        before="        if view.checkpoint_id is None:\n            refuse_other_coordination(session)\n",
        after="",
        suite=("tests/cli/test_coordination.py",),
    ),
    Mutation(
        name="a sweep that knows no table takes a coordinated checkpoint for gone",
        path="batch/sweep/found_checkpoint.py",
        before='    if named is not None and named != (coordination or "").removesuffix("/"):\n',
        after="    if False:\n",
        suite=("tests/cli/test_coordination.py::test_a_sweep_without_the_table_leaves_everything_alone",),
    ),
    Mutation(
        name="a cursor is set in a checkpoint whose table is missing",
        path="batch/operations/cursor_move.py",
        before="        if view.checkpoint_id is None:\n            refuse_other_coordination(session)\n",
        after="",
        suite=("tests/cli/test_coordination.py",),
    ),
)
