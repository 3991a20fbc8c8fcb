"""The opensearch sink: documents that follow a table's rows.

Read in this order:

- `opensearch_sink`: the sink
- `opensearch_options`: the keys of a pipeline and its connection
- `cluster`: requests to the cluster, and their errors; an index that is gone is one of them
- `cluster_answer`: answers, and the faults in them
- `cluster_facts`: its version and id
- `index_names`: names and versions
- `claims`: the owner of an index, and the batch begun last
- `indexes`: indexes made, shown behind the alias, and removed
- `found_index`: an index that is there, and the facts that batches leave at it
- `index_checks`: the reasons why an index is not written to
- `known_columns`: the columns that its documents have
- `value_text`: the text of values
- `row_documents`: documents of rows
- `document_ids`: their ids
- `operations`: the lines of bulk requests
- `bulk`: bulk requests, sent until they are taken
- `stored_documents`: documents looked up by their ids
- `conflicts`: the reason why a document refused a write
- `document_delivery`: the documents of one part
- `batch_index`: the index that a batch is written to
- `letter_replay`: dead letters sent again
- `read_back`: rows of documents
"""

__all__ = []
