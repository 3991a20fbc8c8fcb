"""The checkpoint of a pipeline: offsets, commits, reports."""
