"""python -m dagster_sparkscale.driver [options] program.py [arguments...]

Or the main file of spark-submit, which runs it by its path: then there is no package around it.
"""

import sys

try:
    from dagster_sparkscale.driver.main import main
except ImportError:
    if __package__:
        raise
    # Not installed, nor shipped as a zip: this file lies in the package.
    from pathlib import Path

    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    from dagster_sparkscale.driver.main import main

if __name__ == "__main__":
    sys.exit(main())
