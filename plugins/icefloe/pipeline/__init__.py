"""Pipeline files: YAML in, a checked `Pipeline` out.

Read in this order:

- `pipeline_file`: finds, loads and checks a file; refuses what cannot be, or what is not built yet
- `model`: a pipeline, whose fields are the keys of the file
- `settings`: the mappings inside it, and the sinks that icefloe comes with
- `option_values`: options that other rooms decide by; a text resolved, next to the text as written
- `validation`: all checks; every fault is reported at once
- `schema`: the published JSON Schema
- `environment`: ``${NAME}``
- `url`: URLs of storage, checkpoint and sinks
- `recorded_configuration`: the part of a pipeline that the checkpoint records
- `yaml_file`: YAML with line numbers; faults with their lines
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
