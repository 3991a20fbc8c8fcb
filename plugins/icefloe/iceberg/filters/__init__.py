"""A pipeline's ``filter``: parsed, bound to a schema, evaluated.

Read in this order:

- `row_filter`: the filter of a table's rows
- `filter_syntax`: text to expression
- `filter_binding`: names and values bound to a schema
- `column_range`: the range of a column's values
"""

__all__ = ["column_range", "filter_syntax", "row_filter"]
