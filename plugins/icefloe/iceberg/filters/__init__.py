"""A pipeline's ``filter``: parsed, bound to a schema, evaluated.

Read in this order:

- `row_filter`: the filter of a table's rows
- `filter_binding`: text to expression, names and values bound to a schema
"""

__all__ = ["row_filter"]
