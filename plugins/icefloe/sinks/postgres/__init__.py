"""The rows of a table in a table of PostgreSQL.

- `postgres_sink`: the owner of a table, its batches, and one transaction for each
- `target_table`: the table, its token, and statements that bring rows
- `database`: connections and transactions
- `target_columns`: columns that follow those of the source
- `column_types`: Arrow's types in PostgreSQL, as text for COPY, and back
"""

__all__ = []
