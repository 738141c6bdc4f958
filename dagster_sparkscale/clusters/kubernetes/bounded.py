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
        # By pipes of our own: what it leaves running in a session of its own, which is not ended
        # with it, would hold our caller's open, and that one waits for their end.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        output, said = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired as late:
        output, said = late.output or b"", late.stderr or b""
        ended = process.poll()
        if ended is None:
            said += f"it had not ended after {seconds:g} s, and was ended\n".encode()
        code = TOO_LONG if ended is None else ended
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(said)
    return code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
