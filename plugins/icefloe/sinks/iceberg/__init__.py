"""Changes in an Iceberg table.

- `iceberg_sink`: from the keys of a pipeline to a sink
- `table_sink`: the owner of a table, its batches, and one commit for each
- `changelog`: appends changes
- `keyed_table`: what tables with rows by key share
- `mirror`: keeps the table equal to the source
- `row_history`: keeps every version of every row
- `versions`: the versions that changes begin, go on with and end
- `branch_sink`: rows that another engine writes to a branch
- `target`: the table in its catalog, its token, and commits that move main from an inspected head
- `target_schema`: columns that follow those of the source
- `target_files`: data files of a batch
- `target_rows`: rows of the target, found by key
- `row_delta`: rows that leave and enter a table in one snapshot
"""

__all__ = ["branch_sink", "target"]
