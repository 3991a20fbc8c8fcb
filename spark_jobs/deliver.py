"""Phase deliver as a Spark application; its one argument is the plan's URI."""

import sys

from icefloe.engines.spark.job import run_job
from icefloe.flow import Phase

if __name__ == "__main__":
    sys.exit(run_job(Phase.DELIVER, sys.argv[1:]))
