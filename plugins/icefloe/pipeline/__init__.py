"""The pipeline file: its schema, its YAML with line numbers, its model."""
