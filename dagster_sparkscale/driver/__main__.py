"""python -m dagster_sparkscale.driver [options] program.py [arguments...]

Or the main file of spark-submit, which runs it by its path: then there is no package around it.
"""

import sys

# The image of a driver may have an older Python than Dagster has.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(f"sparkscale: a driver needs Python 3.10 or newer; this is {sys.version.split()[0]}")

try:
    from dagster_sparkscale.driver.log import outlive_readers
    from dagster_sparkscale.driver.main import main as main
except ImportError:
    if __package__:
        raise
    # Not installed, nor shipped as a zip: this file lies in the package.
    from pathlib import Path

    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    from dagster_sparkscale.driver.log import outlive_readers
    from dagster_sparkscale.driver.main import main as main

if __name__ == "__main__":
    outlive_readers()
    sys.exit(main())
