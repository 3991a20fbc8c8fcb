"""Phase insert_only as a Spark application; its one argument is the plan's URI."""

import sys

from icefloe.batch.phases import Phase
from icefloe.engines.spark_job import run

if __name__ == "__main__":
    sys.exit(run(Phase.INSERT_ONLY, sys.argv[1:]))
