"""The use cases of one batch: open, plan, write, read, commit, clean up."""
