"""PyIceberg's table, under a name that the rest of the library may import."""

from pyiceberg.io import FileIO
from pyiceberg.table import Table

__all__ = ["FileIO", "Table"]
