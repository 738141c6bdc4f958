"""python -m dev.hdfs [--folder FOLDER]

Runs a NameNode and a DataNode in the foreground until SIGTERM or Ctrl-C, and prints where they are.
"""

import sys

from dev.hadoop.rig import keep, parser
from dev.hdfs.rig import Rig


def main() -> int:
    given = parser("dev.hdfs", __doc__).parse_args()
    return keep(Rig, "hdfs-", given.folder, given.tethered)


if __name__ == "__main__":
    sys.exit(main())
