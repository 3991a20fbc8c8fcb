"""Pipeline files: YAML in, a checked `Pipeline` out.

Read in this order:

- `pipeline_file`: finds, loads and checks a file
- `model`: a pipeline
- `settings`: the mappings inside it
- `option_values`: options that other rooms decide by
- `validation`: all checks; every fault is reported at once
- `schema`: the published JSON Schema
- `problems`: a place and a sentence
- `error_lines`: errors with the line of a key
- `environment`: ``${NAME}``
- `url`: URLs of storage, checkpoint and sinks
- `nested_places`: places that contain each other, refused
- `expanded_text`: a text resolved, next to the text as written
- `sink_types`: the sinks that icefloe comes with
- `unbuilt_keys`: keys that this release does not support yet, refused
- `recorded_configuration`: the part of a pipeline that the checkpoint records
- `yaml_file`: YAML with line numbers
- `yaml_scalar`: scalars of YAML 1.2
"""

__all__ = [
    "environment",
    "error_lines",
    "expanded_text",
    "model",
    "nested_places",
    "option_values",
    "pipeline_file",
    "recorded_configuration",
    "settings",
    "sink_types",
    "unbuilt_keys",
    "url",
    "yaml_file",
]
