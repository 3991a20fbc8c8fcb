"""Documents in a search index that follow a table's rows.

- `opensearch_sink`: the sink
- `opensearch_options`: the keys of a pipeline and its connection
- `cluster`: requests to the cluster, and their errors
- `claims`: the owner of an index, and the batch that began last
- `indexes`: indexes made, checked, shown, and removed, their names, and the facts that batches leave there
- `row_documents`: documents of rows, their ids, and rows of documents
- `delivery`: bulk requests, the documents of a part, conflicts, and dead letters
"""

__all__ = []
