"""Phase shuffle_write as a Spark application; its one argument is the plan's URI."""

import sys

from icefloe.batch.run.phases import Phase
from icefloe.engines.spark.job import run

if __name__ == "__main__":
    sys.exit(run(Phase.SHUFFLE_WRITE, sys.argv[1:]))
