"""The page in Airflow, from the store to the browser.

`static` is the browser's side. `page.js` loads the document of an address; `overview.js`, `pipeline.js`, `batch.js` and
`backfill.js` draw one view each. If the page stays blank, begin in `page.js`.

Read in this order:

- `app`: routes, rights, and the documentation
- `page_documents`: every document, and its reads
- `pipeline_page`: the documents of all pipelines and of one
- `batch_page`: the document of one batch
- `health`: the health of a pipeline
- `dag_reader`: reads Airflow's database
- `checkpoint_reader`: reads checkpoints
- `static`: scripts, styles and icons
"""

__all__ = ["app"]
