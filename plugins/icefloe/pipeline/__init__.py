"""Pipeline files: YAML in, a checked `Pipeline` out.

- `pipeline_file`: finds, loads and checks a file
- `model`: a pipeline, whose fields are the keys of the file, and the keys that the checkpoint records
- `settings`: options that other rooms decide by, the mappings inside it, and the sinks of icefloe
- `validation`: all checks, reported at once
- `environment`: ``${NAME}``, and values that it hides
- `url`: URLs of storage, checkpoint and sinks
- `yaml_file`: YAML and faults with line numbers
"""

__all__ = ["environment", "model", "pipeline_file", "settings", "url", "yaml_file"]
