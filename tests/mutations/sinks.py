"""Mutations of the sinks."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["SINKS"]

_SCHEDULES: Final = ("tests/simulation/test_simulation.py::test_no_schedule_breaks_a_promise",)
_SERVERS_KAFKA_SINK: Final = ("tests/servers/test_kafka_sink.py",)
_OPENSEARCH_BULK: Final = (
    "tests/sinks/opensearch/test_bulk.py",
    "tests/sinks/opensearch/test_indexes.py",
    "tests/sinks/opensearch/test_purge.py",
    "tests/sinks/opensearch/test_row_documents.py",
)

SINKS: Final = (
    Mutation(name="in some schedule a second pipeline delivers to a claimed path", function="Origin.refuse_other",
             kind=Kind.NEVER, suite=_SCHEDULES),
    Mutation(name="in some schedule a manifest names parts that are gone", function="ChangeFiles.commit",
             kind=Kind.WITHOUT, place=4, suite=_SCHEDULES),
    Mutation(name="keys move to other partitions between two batches", function="Placement.require", kind=Kind.NEVER,
             suite=("tests/servers/test_kafka_changed_topics.py",)),
    Mutation(name="an update that is cut by a slice is two events", function="event_rows", kind=Kind.OTHERWISE, place=1,
             suite=("tests/sinks/kafka/test_event_rows.py",)),
    Mutation(name="a part that is in the topic as a whole is sent again", function="PartSender.send",
             kind=Kind.ALWAYS, place=7, suite=_SERVERS_KAFKA_SINK),
    Mutation(name="a load that begins again does not say so to its readers", function="KafkaSink.begin",
             kind=Kind.SECOND, place=8, suite=("tests/servers/test_kafka_loads.py",)),
    Mutation(name="a topic with messages of somebody else is claimed", function="KafkaSink._look",
             kind=Kind.NEVER, place=3, suite=_SERVERS_KAFKA_SINK),
    Mutation(name="a change larger than the topic takes is sent", function="TransactionProducer.send",
             kind=Kind.NEVER, place=4, suite=_SERVERS_KAFKA_SINK),
    Mutation(name="two rows of one key in a part are no error", function="key_operations", kind=Kind.NEVER,
             suite=("tests/sinks/test_key_changes.py",)),
    Mutation(name="the middle of a pipeline begins on an empty cluster", function="refuse_other_record",
             kind=Kind.NEVER, place=1, suite=("tests/servers/test_opensearch_pipelines.py",)),
    Mutation(name="an answer to fewer operations than were sent is taken for whole", function="BulkSender._sort_items",
             kind=Kind.NEVER, place=1, suite=_OPENSEARCH_BULK),
    Mutation(name="an index of another pipeline is written to", function="Claims.of", kind=Kind.WITHOUT, place=3,
             suite=("tests/sinks/opensearch/test_conformance.py::TestSoftDeletes::test_another_origin_is_refused",)),
    Mutation(name="a page that was cut by a timeout counts as whole", function="missing_shards", kind=Kind.NEVER,
             suite=("tests/sinks/opensearch/test_missing_shards.py",)),
    Mutation(name="a document that another program wrote counts as another row of the key",
             function="PartDeliverer._other_content", kind=Kind.NEVER,
             suite=("tests/sinks/opensearch/test_foreign_writes.py",)),
    Mutation(name="an index with documents of others is claimed", function="Indexes._require_own",
             kind=Kind.NEVER, suite=_OPENSEARCH_BULK),
    Mutation(name="an index that was removed in the middle of its load is made again", function="Indexes.prepare",
             kind=Kind.NEVER, place=1, suite=_OPENSEARCH_BULK),
    Mutation(name="a column that was dropped and added again goes on in the documents of the old one",
             function="Indexes._refuse_misfit", kind=Kind.NEVER, place=3,
             suite=("tests/sinks/opensearch/test_known_columns.py",)),
)  # fmt: skip
