"""The opensearch sink: documents that follow a table's rows.

- `opensearch_sink`: the sink
- `opensearch_options`: the keys of a pipeline and its connection
- `cluster`: requests to the cluster, its answers, and their errors
- `batch_index`: the owner of an index, and the index that a batch is written to
- `indexes`: indexes made, checked, shown behind the alias, and removed
- `found_index`: names of indexes, and the facts that batches leave at them
- `row_documents`: documents of rows, and their ids
- `bulk`: the lines of bulk requests, sent until they are taken
- `delivery`: the documents of a part, the judgement of conflicts, and dead letters sent again
- `read_back`: rows of documents
"""

__all__ = []
