"""Bytes under keys: local disk, memory and object stores behind one contract."""
