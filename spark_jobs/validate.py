"""A task that does nothing, for `icefloe validate`; its one argument is the file for what went wrong."""

import sys

from icefloe.engines.spark.job import try_workers

if __name__ == "__main__":
    sys.exit(try_workers(sys.argv[1:]))
