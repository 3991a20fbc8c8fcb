from support.pipelines.workspace import Workspace, icefloe


def test_a_connection_of_airflow_is_said_to_be_unknown_here(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(storage_conn_id="lake"), "--json")
    assert done.code == 0
    assert "storage_conn_id names the Airflow connection 'lake'" in done.sentence
    assert "the machine's own identity is used" in done.sentence


def test_the_engine_of_the_command_counts_before_anything_asks_for_it(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(engine="spark", spark={"conf": {"spark.cores.max": "many"}})
    assert "spark.cores.max" in icefloe("run", pipeline).sentence
    assert icefloe("run", pipeline, "--engine", "local").code == 0
