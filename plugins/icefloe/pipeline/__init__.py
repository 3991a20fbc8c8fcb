"""Pipeline files: YAML in, a checked `Pipeline` out.

- `pipeline_file`: finds, loads and checks a file
- `model`: a pipeline, whose fields are the keys of the file
- `settings`: the mappings inside it, and the sinks of icefloe
- `option_values`: options that other rooms decide by; expanded texts
- `validation`: all checks, reported at once
- `schema`: the published JSON Schema
- `environment`: ``${NAME}``
- `url`: URLs of storage, checkpoint and sinks
- `recorded_configuration`: the keys that the checkpoint records
- `yaml_file`: YAML and faults with line numbers
"""

__all__ = [
    "environment",
    "model",
    "option_values",
    "pipeline_file",
    "recorded_configuration",
    "settings",
    "url",
    "yaml_file",
]
