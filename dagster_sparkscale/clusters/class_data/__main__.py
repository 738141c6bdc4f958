"""`python -m dagster_sparkscale.clusters.class_data`."""

import signal
import sys

from dagster_sparkscale.clusters.class_data.archives import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
