"""Phases with many tasks, handed to an engine until nothing is left to do.

Read in this order:

- `phases`: the tasks of a phase that are left, and how one runs
- `renew_credentials`: the table opened again when vended credentials end
"""

__all__ = ["renew_credentials"]
