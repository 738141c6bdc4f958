"""Runs a command, and ends it with all that it has started where it takes too long.

    python bounded.py SECONDS COMMAND [ARGUMENT...]

Started by its path: standard library only. Its exit code is the command's, or 124 as that of
`timeout`, which not every system has.
"""

import contextlib
import os
import signal
import subprocess
import sys

TOO_LONG = 124


def main(seconds: float, command: list[str]) -> int:
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"it had not ended after {seconds:g} s, and was ended", file=sys.stderr)
        return TOO_LONG
    finally:
        # What is left of it would hold its output open, for which its caller waits.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
