import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import icefloe
from icefloe.batch.context.references import BatchReference
from icefloe.batch.run_settings import Credentials
from icefloe.engines.spark.submit import SparkSubmit, build_package_zip
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from support.pipelines.pipeline_files import settings_at
from support.pipelines.workspace import Workspace

SECRET = "never-on-a-command-line"


class FakeSpark:
    """A spark-submit that writes down what it was given and ends as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "spark-submit"

    @property
    def seen(self) -> list[str]:
        return (self.folder / "seen").read_text().splitlines()

    def write(self, *, exit_code: int, error: dict[str, Any] | None = None, look: str = ":") -> None:
        lines = [
            "#!/bin/sh",
            f'printf "%s\\n" "$@" > {self.folder}/arguments',
            f"env > {self.folder}/environment",
            f"({look}) > {self.folder}/seen",
            "echo starting; echo 'the last word'; printf '\\tat java.base/Thread.run\\n\\t... 7 more\\n'",
        ]
        if error is not None:
            errors = self.folder / "7" / "errors"
            errors.mkdir(parents=True)
            lines.append(f"printf '%s' '{json.dumps(error)}' > {errors}/shuffle_write-$ICEFLOE_ATTEMPT.json")
        self.script.write_text("\n".join([*lines, f"exit {exit_code}", ""]))
        self.script.chmod(self.script.stat().st_mode | stat.S_IXUSR)

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text().splitlines()

    @property
    def environment(self) -> str:
        return (self.folder / "environment").read_text()


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark(tmp_path)
    monkeypatch.setattr("icefloe.engines.spark.submit.shutil.which", lambda *_, **__: str(fake.script))
    return fake


def submit(folder: Path, reference: BatchReference | None = None, **keys: Any) -> None:
    path = Workspace.create(folder).pipeline(engine="spark", **keys)
    jobs = SparkSubmit.of(Pipeline.load(path, environ={}), environ={"PATH": "/usr/bin:/bin"})
    jobs.run(Phase.SHUFFLE_WRITE, reference or batch(folder))


def batch(folder: Path, *, certificates: str = "", **settings: Any) -> BatchReference:
    options = {"secret_access_key": SECRET, "root_certificate": certificates}
    return BatchReference(
        plan_url=f"file://{folder}/7/plan.json",
        credentials=Credentials(storage_options=options),
        settings=settings_at(f"file://{folder}/checkpoint", **settings),
    )


def test_the_job_gets_the_plan_as_its_only_argument(spark: FakeSpark) -> None:
    spark.write(exit_code=0)
    submit(spark.folder, spark={"conf": {"spark.master": "local[3]", "spark.x": "y"}})
    application, plan_url = spark.arguments[-2:]
    assert application.endswith("spark_jobs/shuffle_write.py")
    assert plan_url == f"file://{spark.folder}/7/plan.json"
    assert spark.arguments[:2] == ["--master", "local[3]"]
    assert "spark.x=y" in spark.arguments


def test_workers_in_the_drivers_process_import_the_library_from_where_it_is(spark: FakeSpark) -> None:
    # While the job runs: the folder is temporary.
    spark.write(
        exit_code=0, look="ls $PYTHONPATH; python3 -c 'import icefloe, os; print(os.path.realpath(icefloe.__file__))'"
    )
    submit(spark.folder, spark={"conf": {"spark.master": "local[3]"}})
    assert "--py-files" not in spark.arguments
    found, imported = spark.seen
    assert (found, imported) == ("icefloe", os.path.realpath(icefloe.__file__))


def test_certificates_and_columns_of_any_length_reach_the_driver(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole bundle of authorities is larger than Linux lets a variable be."""
    spark.write(exit_code=0)
    given = batch(spark.folder, certificates="-----BEGIN\n" * 20_000, filter="carrier is null " * 10_000)
    submit(spark.folder, given)
    for line in spark.environment.splitlines():
        name, _, value = line.partition("=")
        if name.startswith("ICEFLOE_"):
            monkeypatch.setenv(name, value)
    assert BatchReference.from_environment(given.plan_url) == given


@pytest.mark.parametrize(("family", "kind"), [("terminal", TerminalError), ("transient", TransientError)])
def test_the_error_of_a_job_is_raised(spark: FakeSpark, family: str, kind: type[IcefloeError]) -> None:
    spark.write(exit_code=1, error={"version": 1, "family": family, "sentence": "the reason"})
    with pytest.raises(kind, match=r"^the reason$"):
        submit(spark.folder)


def test_a_machine_that_does_not_start_spark_submit_is_tried_again(spark: FakeSpark) -> None:
    spark.script.write_text("no program")
    with pytest.raises(TransientError, match=r"^spark-submit of shuffle_write could not be started .*denied"):
        submit(spark.folder)


def test_a_job_on_a_cluster_gets_the_library_in_a_zip(spark: FakeSpark) -> None:
    spark.write(exit_code=0, look="ls $(dirname $(echo $* | sed 's/.*--py-files //;s/ .*//'))/icefloe.zip")
    conf = {"spark.master": "spark://host:7077"}
    submit(spark.folder, spark={"conf": conf}, storage_is_shared=True)
    assert "--py-files" in spark.arguments
    assert spark.seen[0].endswith("/icefloe.zip")


def test_a_job_that_is_ended_before_it_begins_never_begins(spark: FakeSpark) -> None:
    path = Workspace.create(spark.folder).pipeline(engine="spark")
    jobs = SparkSubmit.of(Pipeline.load(path, environ={}), environ={"PATH": "/usr/bin:/bin"})
    jobs.end()
    with pytest.raises(TransientError, match=r"^shuffle_write was ended from outside before its Spark job began"):
        jobs.run(Phase.SHUFFLE_WRITE, batch(spark.folder))


def test_a_job_that_dies_without_a_word_may_be_tried_again(spark: FakeSpark) -> None:
    spark.write(exit_code=137)
    with pytest.raises(TransientError, match=r"exit code 137 .* it last said: the last word"):
        submit(spark.folder)


def test_without_spark_submit_the_sentence_names_the_other_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.engines.spark.submit.shutil.which", lambda *_, **__: None)
    with pytest.raises(TerminalError, match=r"^spark-submit is neither next to .* nor on the path.*engine: local$"):
        submit(tmp_path)


def test_without_the_folder_of_applications_the_one_of_the_package_gets_the_phase(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.engines.spark.submit._SPARK_JOBS", spark.folder / "spark_jobs")
    spark.write(exit_code=0)
    submit(spark.folder)
    application, phase, plan_url = spark.arguments[-3:]
    assert Path(application).is_relative_to(Path(icefloe.__file__).parent)
    assert (Path(application).is_file(), phase, plan_url) == (
        True,
        "shuffle_write",
        f"file://{spark.folder}/7/plan.json",
    )


def test_settings_that_no_job_starts_with_are_found_before_one_is_started(spark: FakeSpark) -> None:
    archive = spark.folder / "env.tar.gz"
    archive.touch()
    workspace = Workspace.create(spark.folder)

    def check(**conf: str) -> None:
        pipeline = Pipeline.load(workspace.pipeline(engine="spark", spark={"conf": conf}), environ={})
        SparkSubmit.of(pipeline, environ={"PATH": "/bin"}).check_engine()

    check()
    with pytest.raises(TerminalError, match=r"sets spark\.executor\.pyspark\.memory"):
        check(**{"spark.executor.pyspark.memory": "1g"})
    with pytest.raises(
        TerminalError, match=r"^spark\.conf names /nowhere/env\.tar\.gz in spark\.archives, which is not"
    ):
        check(**{"spark.archives": f"https://example.com/other.zip,{archive}#java,/nowhere/env.tar.gz#environment"})
    check(**{"spark.archives": f"s3a://lake/env.tar.gz#environment,file://{archive}"})
    assert not (spark.folder / "arguments").exists()


def test_files_of_an_image_without_times_are_zipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "icefloe" / "old.py"
    module.parent.mkdir()
    module.touch()
    os.utime(module, (0, 0))
    monkeypatch.setattr("icefloe.engines.spark.submit._PACKAGE", module.parent)
    with ZipFile(build_package_zip(tmp_path)) as archive:
        assert archive.namelist() == ["icefloe/old.py"]


def test_the_library_imports_from_its_zip_alone(tmp_path: Path) -> None:
    path = build_package_zip(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", "import icefloe.errors; print(icefloe.errors.__file__)"],
        env={"PYTHONPATH": str(path)}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(path))
    with ZipFile(path) as archive:
        assert "icefloe/pipeline/schema.json" in archive.namelist()
        assert not [name for name in archive.namelist() if "__pycache__" in name]
