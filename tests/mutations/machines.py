"""Mutations of the guards on a machine that is full, killed or short of something: disk, memory, threads, processes."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["MACHINES"]

_DISKS: Final = ("tests/faults/test_disk_faults.py",)
_THREADS: Final = ("tests/test_threads.py",)
_LANES: Final = ("tests/orchestration/tasks/test_lanes.py",)
_LARGE_ROW: Final = ("tests/faults/test_large_row.py",)

MACHINES: Final = (
    Mutation(
        name="a value is linked before it is on disk",
        path="storage/synced_files.py",
        before="        os.fsync(descriptor)\n        yield path\n",
        after="        yield path\n",
        suite=("tests/storage/test_power_loss.py",),
    ),
    Mutation(
        name="a name counts before its folder is on disk",
        path="storage/local_store.py",
        before='        with self._place.faults("create", key):\n            sync_folder(self._path(key).parent)\n',
        after="",
        suite=("tests/storage/test_power_loss.py",),
    ),
    Mutation(
        name="the rest of a short write is forgotten",
        path="storage/synced_files.py",
        before="        chunk = chunk[os.write(descriptor, chunk) :]",
        after="        os.write(descriptor, chunk)\n        return",
        suite=_DISKS,
    ),
    Mutation(
        name="a file that came out short is linked",
        path="storage/synced_files.py",
        before="    if written_bytes != size_bytes:",
        after="    if False:",
        suite=("tests/storage/test_local_store.py",),
    ),
    Mutation(
        name="a full disk ends a run for good",
        path="storage/store_errors.py",
        before="    errno.ENOSPC, ",
        after="    ",
        suite=_DISKS,
    ),
    Mutation(
        name="too many open files end a run for good",
        path="storage/store_errors.py",
        before="errno.EMFILE, ",
        after="",
        suite=_DISKS,
    ),
    Mutation(
        name="a file whose write failed stays behind",
        path="storage/synced_files.py",
        before="            path.unlink(missing_ok=True)\n        finally:\n            os.close(descriptor)\n",
        after="            pass\n        finally:\n            os.close(descriptor)\n",
        suite=_DISKS,
    ),
    Mutation(
        name="a file that its writer could not remove stays locked",
        path="storage/synced_files.py",
        before="        finally:\n            os.close(descriptor)\n\n\ndef sync_folder",
        after="        except FileNotFoundError:\n            os.close(descriptor)\n\n\ndef sync_folder",
        suite=("tests/storage/test_local_store.py",),
    ),
    Mutation(
        name="a machine that starts no process counts as one without Java",
        path="engines/spark/java.py",
        before="if isinstance(cause, OSError) and cause.errno in _NO_PROGRAM:",
        after="if isinstance(cause, OSError):",
        suite=("tests/engines/spark/test_java.py",),
    ),
    Mutation(
        name="a disk that is full before a Spark job begins is a fault of icefloe",
        path="engines/spark/application.py",
        before='        with on_local_disk(f"the library cannot be laid ready for Spark in {folder}"):\n',
        after="        if True:\n",
        suite=("tests/engines/spark/test_submit.py",),
    ),
    Mutation(
        name="a JVM that is gone when it is stopped hides the error of the job",
        path="engines/spark/job.py",
        before="        _stop(spark)\n",
        after="        spark.stop()\n",
        suite=("tests/engines/spark/test_job.py",),
    ),
    Mutation(
        name="a dead Spark job leaves nothing but its exit code in Airflow",
        path="orchestration/tasks/spark_phase_operator.py",
        before="            raise application.silent_error(*self._end_of_job()) from failure\n",
        after="            raise failure\n",
        suite=("tests/orchestration/tasks/test_failed_spark_jobs.py",),
    ),
    Mutation(
        name="a container counts as many cores as its machine",
        path="batch/open/cores.py",
        before="    return min(cores, cpu_limit() or cores)",
        after="    return cores",
        suite=("tests/batch/open/test_cores.py",),
    ),
    Mutation(
        name="tasks run at once whose memory a container does not have",
        path="batch/open/cores.py",
        before="    return min(of_machine, memory_limit() or of_machine)",
        after="    return of_machine",
        suite=("tests/batch/open/test_cores.py",),
    ),
    Mutation(
        name="a thread that died as it began is waited for without end",
        path="threads.py",
        before="        self._started = _Birth()\n",
        after="",
        suite=_THREADS,
    ),
    Mutation(
        name="a thread that is started twice counts as one that the system refused",
        path="threads.py",
        before="            if not is_new:\n                raise\n",
        after="",
        suite=_THREADS,
    ),
    Mutation(
        name="staged files are decoded in threads of Arrow",
        path="sinks/parquet_files.py",
        before="iter_batches(row_groups=[group], use_threads=False)",
        after="iter_batches(row_groups=[group])",
        suite=("tests/sinks/test_parquet_files.py",),
    ),
    Mutation(
        name="a lane counts on threads that died",
        path="orchestration/tasks/lanes.py",
        before="for thread in self._begun if thread.is_alive()}",
        after="for thread in self._begun}",
        suite=_LANES,
    ),
    Mutation(
        name="a lane keeps a call for which it refused a thread",
        path="orchestration/tasks/lanes.py",
        before="                self._waiting.pop()\n",
        after="",
        suite=_LANES,
    ),
    Mutation(
        name="calls of a thread that died count as made",
        path="threads.py",
        before="if any(answer is _NO_ANSWER for answer in self._answers):",
        after="if False:",
        suite=_THREADS,
    ),
    Mutation(
        name="a machine without room for temporary folders is not said to be one",
        path="storage/local_folders.py",
        before='        with on_local_disk("no folder for temporary files can be made"):\n',
        after="        if True:\n",
        suite=("tests/storage/test_local_folders.py",),
    ),
    Mutation(
        name="a folder that another process removed before its lock counts as kept",
        path="storage/local_folders.py",
        before="            if _is_locked(folder, held):\n",
        after="            if _is_locked(folder, held) or True:\n",
        suite=("tests/storage/test_local_folders.py",),
    ),
    Mutation(
        name="what a full disk did not take is written once more as the file is closed",
        path="storage/local_folders.py",
        before="        with suppress(OSError):\n            file.close()\n",
        after="        file.close()\n",
        suite=("tests/shuffle/test_stored_extents.py", "tests/shuffle/test_collected_blocks.py"),
    ),
    Mutation(
        name="a full disk under the copy of a file is a fault of the file",
        path="iceberg/files/file_formats.py",
        before="            with on_local_disk(_CANNOT_COPY):\n                copy.write(chunk)\n",
        after="            copy.write(chunk)\n",
        suite=("tests/iceberg/files/test_orc_file.py",),
    ),
    Mutation(
        name="rows of any size are taken",
        path="batch/rows/memory_limit.py",
        before="        if batch.nbytes <= most:",
        after="        if True:",
        suite=_LARGE_ROW,
    ),
    Mutation(
        name="a row is thought to be in memory a third as often as it is",
        path="batch/rows/memory_limit.py",
        before="_COPIES: Final = 20",
        after="_COPIES: Final = 6",
        suite=_LARGE_ROW,
    ),
    Mutation(
        name="bytes that LZ4 has no memory to read are damaged",
        path="errors.py",
        before='"ERROR_allocation_failed", ',
        after="",
        suite=("tests/test_errors.py", "tests/shuffle/test_blocks.py"),
    ),
    Mutation(
        name="a manifest that there is no memory to decode is damaged",
        path="iceberg/catalog/metadata_errors.py",
        before="        with lack_of_memory_named():\n",
        after="        if True:\n",
        suite=("tests/test_errors.py",),
    ),
)
