"""python -m dev.yarn [--folder FOLDER] [--aggregate]

Runs a ResourceManager and two NodeManagers in the foreground until SIGTERM or Ctrl-C, and prints
where they are.
"""

import sys

from dev.hadoop.rig import keep, parser
from dev.yarn.rig import Rig


def main() -> int:
    options = parser("dev.yarn", __doc__)
    options.add_argument("--aggregate", action="store_true", help="gather logs of applications")
    options.add_argument("--pass", action="append", default=[], dest="passed", help="a variable")
    given = options.parse_args()
    return keep(
        lambda folder: Rig(folder, given.aggregate, given.passed),
        *("yarn-", given.folder, given.tethered),
    )


if __name__ == "__main__":
    sys.exit(main())
