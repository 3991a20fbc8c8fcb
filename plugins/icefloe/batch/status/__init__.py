"""``status.json``: how a pipeline is doing. It never decides anything.

Read in this order:

- `pipeline_status`: the document
- `table_facts`: the head of a branch and the lag of the cursor behind it
- `pin_facts`: the snapshots that a pipeline pins
- `publish_status`: writes the document after a plan, a commit or a failure
- `observe_trouble`: tasks of a run without Airflow, of which a failed one is recorded
"""

__all__ = ["observe_trouble", "pin_facts", "pipeline_status", "publish_status", "table_facts"]
