"""Any phase as a Spark application; its arguments are the name of the phase and the plan's URI."""

import sys

from icefloe.engines.spark.job import TRIAL, run_job, try_workers
from icefloe.flow import Phase

if __name__ == "__main__":
    job, *arguments = sys.argv[1:]
    sys.exit(try_workers(arguments) if job == TRIAL else run_job(Phase(job), arguments))
