"""The change model on Arrow batches: row hash, consolidation, update pairs, change columns."""
