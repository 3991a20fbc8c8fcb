"""The page in Airflow, from the store to the browser.

`static` is the browser's side. `page.js` finds the view for the address and loads its document; `overview.js`,
`pipeline.js`, `batch.js` and `backfill.js` draw one view each. If the page stays blank, begin in `page.js`.

Read in this order:

- `document_cache`: documents of stores for a page that must not wait
- `views`: one document for each view, from records of the checkpoint
- `server`: the web application that serves these documents, and the rights to them
- `static`: scripts, styles and icons
"""
