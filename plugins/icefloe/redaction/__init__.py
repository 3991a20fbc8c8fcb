"""Secrets, hidden in all text that leaves the process.

- `hidden`: values that this process hides, in all their forms
"""

__all__ = ["hidden"]
