"""python -m dev.yarn [--folder FOLDER] [--aggregate]

Runs a ResourceManager and two NodeManagers in the foreground until SIGTERM or Ctrl-C, and prints
where they are.
"""

import argparse
import select
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from dev.installing import InstallFailed
from dev.yarn.rig import Rig, RigFailed, told


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.yarn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, help="default: a temporary one")
    parser.add_argument("--aggregate", action="store_true", help="gather logs of applications")
    parser.add_argument("--pass", action="append", default=[], dest="passed", help="a variable")
    parser.add_argument("--tethered", action="store_true", help="end when standard input does")
    options = parser.parse_args()
    # What waits for the end of a signal handler ends all the same.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix="yarn-") as folder:
            rig = Rig(options.folder or Path(folder), options.aggregate, options.passed)
            with rig:
                print(told(rig.address), flush=True)
                while (name := rig.ended()) is None:
                    ready = select.select([sys.stdin] if options.tethered else [], [], [], 1.0)[0]
                    if ready and not sys.stdin.readline():
                        return 0
                print(f"{name} has ended", file=sys.stderr)
    except (InstallFailed, RigFailed) as error:
        print(error, file=sys.stderr)
    return 1


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
