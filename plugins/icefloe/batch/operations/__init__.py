"""The ways out of a stuck pipeline, for an operator.

Read in this order:

- `abandoned_batch`: gives up an open batch
"""

__all__ = ["abandoned_batch"]
