"""Secrets, hidden in whatever leaves the process.

Read in this order:

- `hidden`: values that this process hides
- `configuration`: which values of a configuration are secret
- `forms`: how a value looks in other people's text
- `starts`: which values a text may hold, by their first characters
"""

__all__ = ["hidden"]
