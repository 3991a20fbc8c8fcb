"""Secrets, hidden in all text that leaves the process.

Read in this order:

- `hidden`: values that this process hides
- `secret_values`: which values of a configuration are secret
- `forms`: the forms of a value in the text of others
"""

__all__ = ["hidden", "secret_values"]
