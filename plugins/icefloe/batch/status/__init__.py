"""``status.json``: how a pipeline is doing. It never decides anything.

Read in this order:

- `pipeline_status`: the document
- `publish_status`: writes it when a task ends, well or not
"""

__all__ = ["pipeline_status", "publish_status"]
