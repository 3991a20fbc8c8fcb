"""The documents of the page: pure functions of the data that was read.

Read in this order:

- `dag_state`: a DAG as plain values
- `status_document`: what a pipeline says of itself
- `overview`: all pipelines
- `health`: the health of a pipeline in one word and one sentence
- `pipeline_page`: one pipeline
- `batch_entry`: one batch in a list
- `batch_page`: one batch
"""

__all__ = ["batch_page", "dag_state", "overview", "pipeline_page"]
