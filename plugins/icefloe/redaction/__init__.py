"""Secrets, hidden in all text that leaves the process.

- `hidden`: values that this process hides, in all their forms
- `secret_values`: the secret values of a configuration
"""

__all__ = ["hidden", "secret_values"]
