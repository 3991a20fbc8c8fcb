"""Secrets, hidden in all text that leaves the process.

Read in this order:

- `hidden`: values that this process hides, in each of their six forms
- `secret_values`: which values of a configuration are secret
"""

__all__ = ["hidden", "secret_values"]
