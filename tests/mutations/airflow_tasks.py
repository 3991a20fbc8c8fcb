"""Mutations of the Airflow side: each lets one pipeline, deployment or task get in the way of another."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["AIRFLOW_TASKS"]

_CONNECTIONS: Final = ("tests/orchestration/connections/test_airflow_connections.py",)
_FAILURES: Final = ("tests/orchestration/tasks/test_failures.py",)

AIRFLOW_TASKS: Final = (
    Mutation(
        name="the DAG of a broken file takes the id of another file's DAG",
        path="orchestration/dags/dag_factory.py",
        before="numbered) if each not in taken)",
        after="numbered))",
        suite=("tests/orchestration/dags/test_dag_factory.py",),
    ),
    Mutation(
        name="a deployment writes its trouble into the status of another one",
        path="batch/status/publish_status.py",
        before="        checkpoint.refuse_other(writer)\n        before = load_status(checkpoint) or PipelineStatus(\n",
        after="        before = load_status(checkpoint) or PipelineStatus(\n",
        suite=("tests/batch/status/test_publish_status.py",),
    ),
    Mutation(
        name="a callback of the DAG processor writes as nobody in particular",
        path="orchestration/tasks/owner.py",
        before=" or Variable.get(OWNER_VARIABLE, default=None)",
        after="",
        suite=_FAILURES,
    ),
    Mutation(
        name="each process of Airflow that starts imports the modules of tasks",
        path="orchestration/tasks/preloaded.py",
        before="    if _SCHEDULER not in sys.modules:\n        return\n",
        after="",
        suite=("tests/dags/test_preloaded.py",),
    ),
    Mutation(
        name="a scheduler whose executor starts tasks elsewhere imports their modules",
        path="orchestration/tasks/preloaded.py",
        before="if any(name.module_path",
        after="if True or any(name.module_path",
        suite=("tests/dags/test_preloaded.py",),
    ),
    Mutation(
        name="a scheduler that forks its tasks takes another memory pool than they would",
        path="orchestration/tasks/preloaded.py",
        before="    os.environ.update(pool)\n",
        after="",
        suite=("tests/dags/test_preloaded.py",),
    ),
    Mutation(
        name="the memory pool of tasks goes to the programs of other DAGs",
        path="orchestration/tasks/preloaded.py",
        before="        for name in pool:\n            os.environ.pop(name, None)\n",
        after="",
        suite=("tests/dags/test_preloaded.py",),
    ),
    Mutation(
        name="a scheduler that starts fails with the imports of tasks",
        path="orchestration/tasks/preloaded.py",
        before="    except Exception as error:",
        after="    except KeyboardInterrupt as error:",
        suite=("tests/dags/test_preloaded.py",),
    ),
    Mutation(
        name="an extra that is no object ends a task with an internal error",
        path="orchestration/connections/airflow_connections.py",
        before="    if not isinstance(extra, Mapping):\n",
        after="    if False:\n",
        suite=_CONNECTIONS,
    ),
    Mutation(
        name="the record of a failure waits for Airflow without an end",
        path="orchestration/tasks/calls.py",
        before="answer_within(brief_seconds(patience_seconds(os.environ)), call)",
        after="call()",
        suite=_FAILURES,
    ),
    Mutation(
        name="a task goes on without the result of plan",
        path="orchestration/tasks/task_results.py",
        before="    if found is None:\n",
        after="    if False:\n",
        suite=(
            "tests/orchestration/dags/test_dag_factory.py::test_a_route_whose_plan_was_marked_as_success_says_what_to_clear",
        ),
    ),
    Mutation(
        name="the argument of a phase fails before its task can say what to clear",
        path="orchestration/tasks/spark_phase_operator.py",
        before="(ti.xcom_pull(task_ids='plan') or {}).get('plan_uri')",
        after="ti.xcom_pull(task_ids='plan')['plan_uri']",
        suite=("tests/orchestration/tasks/test_spark_phase_operator.py",),
    ),
    Mutation(
        name="a copied pipeline file takes over the DAG of its original",
        path="orchestration/dags/dag_factory.py",
        before="if other != path and dag_id in made]",
        after="if other < path and dag_id in made]",
        suite=("tests/orchestration/dags/test_dag_factory.py",),
    ),
    Mutation(
        name="one of two files with one name keeps its DAG as a broken one",
        path="orchestration/dags/dag_factory.py",
        before="taken = set().union(*whole.values())",
        after="taken = set(dags)",
        suite=("tests/orchestration/dags/test_dag_factory.py",),
    ),
    Mutation(
        name="a task that is out of time waits for calls that hang",
        path="threads.py",
        before="    except KeyboardInterrupt:\n",
        after="    except BaseException:\n",
        suite=("tests/test_threads.py",),
    ),
    Mutation(
        name="a task that is out of time writes to a store that may hang",
        path="batch/phase_record.py",
        before="    except (Exception, KeyboardInterrupt):\n",
        after="    except BaseException:\n",
        suite=("tests/batch/test_phase_record.py",),
    ),
    Mutation(
        name="cores that are no number are found after the batch is open",
        path="engines/spark/master.py",
        before="    cores_of_an_executor(conf)\n",
        after="",
        suite=("tests/engines/spark/test_spark_conf.py",),
    ),
    Mutation(
        name="a role of a connection is dropped without a word",
        path="orchestration/connections/object_store_options.py",
        before="    if not own:\n        _refuse",
        after="    if False:\n        _refuse",
        suite=("tests/orchestration/connections/test_object_store_options.py",),
    ),
    Mutation(
        name="a connection is missing while the API server is down",
        path="orchestration/connections/airflow_connections.py",
        before="    if answer.error is ErrorType.CONNECTION_NOT_FOUND:\n",
        after="    if True:\n",
        suite=_CONNECTIONS,
    ),
    Mutation(
        name="a connection is missing while a secrets backend is down",
        path="orchestration/connections/airflow_connections.py",
        before="        raise _unanswered(conn_id, type(backend).__name__, type(cause).__name__) from cause",
        after="        return False",
        suite=_CONNECTIONS,
    ),
    Mutation(
        name="a connection is missing if the API server answers again after the first look",
        path="orchestration/connections/airflow_connections.py",
        before="    if connection is None and _is_kept(conn_id):",
        after="    if connection is None and _is_kept(conn_id) and False:",
        suite=_CONNECTIONS,
    ),
)
