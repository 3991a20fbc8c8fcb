"""The page in Airflow, from the store to the browser.

`static` is the browser's side. `page.js` finds the view for the address and loads its document; `overview.js`,
`pipeline.js`, `batch.js` and `backfill.js` draw one view each. If the page stays blank, begin in `page.js`.

Read in this order:

- `lazy_app`: the application, made at the first request
- `app`: routes, rights, and the chapters of the documentation
- `page_documents`: every document, and the reads that it needs
- `pipeline_page`: the documents of all pipelines and of one, pure functions of what was read
- `batch_page`: the document of one batch
- `health`: the health of a pipeline in one word and one sentence
- `dag_state`: a DAG, and what a pipeline says of itself, as plain values
- `dag_reader`: reads Airflow's database
- `checkpoint_reader`: reads checkpoints
- `document_cache`: documents of stores for a page that must not wait
- `static`: scripts, styles and icons
"""

__all__ = ["lazy_app"]
