"""`python -m benchmarks.reaped FILE COMMAND ...`: runs a command, and writes into a file the CPU
seconds of all that it has started.

Also those of daemons that outlive their parents: they become children of this process (prctl(2),
PR_SET_CHILD_SUBREAPER), which waits for each, so that the kernel counts them. Linux only.
"""

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

_SUBREAPER = 36


def main(file: str, *command: str) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    child, code = subprocess.Popen(command).pid, 0
    # Each at once: a process that nobody has waited for looks as if it were still there.
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).write_text(str(used.ru_utime + used.ru_stime))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
