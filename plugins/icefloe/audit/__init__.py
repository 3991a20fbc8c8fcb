"""The proof of a batch: sums and verify."""
