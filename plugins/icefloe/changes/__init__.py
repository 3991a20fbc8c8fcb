"""Changes: rows with weights, hashed, added up and paired. Pure functions on Arrow arrays.

A row of a removed file weighs -1, a row of an added file +1. An UPDATE that writes a file again changes one row of two:

>>> import numpy as np, pyarrow as pa
>>> from icefloe.changes.columns import ChangeType
>>> from icefloe.changes.consolidate import consolidate
>>> from icefloe.changes.row_hash.row_hashes import RowHashes
>>> from icefloe.changes.updates import pair_updates
>>> rows = pa.table({"id": [1, 2, 1, 2], "word": ["same", "old", "same", "new"]})
>>> weights, ordinals = np.array([-1, -1, 1, 1]), np.zeros(4, np.int32)

Weights of equal rows are added up, so only changes are left. The rows' writers did not know the key:

>>> key = RowHashes.new_key()
>>> positions, weights = consolidate(RowHashes.of(rows.columns, key=key), ordinals, weights)
>>> left = rows.take(pa.array(positions))
>>> left["word"].to_pylist(), weights.tolist()
(['old', 'new'], [-1, 1])

Rows of one identity are paired:

>>> picks, kinds = pair_updates(
...     row_hashes=RowHashes.of(left.columns, key=key),
...     identity_hashes=RowHashes.of([left["id"]], key=key),
...     change_ordinals=ordinals[positions],
...     weights=weights,
...     order_of=RowHashes.of(left.columns, key=RowHashes.PUBLIC_KEY).take,
... )
>>> [(ChangeType(kind).name, left["word"][int(row)].as_py()) for row, kind in zip(picks, kinds)]
[('UPDATE_BEFORE', 'old'), ('UPDATE_AFTER', 'new')]

Read in this order:

- `columns`: the change columns, rows as Python's values, and rows that were only copied
- `row_hash`: one keyed hash of 128 bits for rows, equal everywhere
- `consolidate`: rows grouped by all 128 bits of their hash, and weights of equal rows added up
- `updates`: weights over a whole batch; update pairs, in the order of delivery
- `alignment`: equal rows at equal positions, and likely pairs of rows by a few columns
- `hash_index`: hashes found again among others, and slices of hashes that fit at once
- `identity_moves`: equal rows of different identities that cancel
"""

__all__ = ["alignment", "columns", "consolidate", "hash_index", "identity_moves", "updates"]
