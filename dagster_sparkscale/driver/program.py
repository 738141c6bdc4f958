"""Runs the user's program as `python program.py arguments...` would."""

import os
import runpy
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path


def run(program: Path, arguments: Sequence[str]) -> int:
    """Run the program in this process, until it and its threads have ended. Its exit code."""
    sys.argv = [str(program), *arguments]
    # The first entry is the current folder, as it is for `python -m`; of a program it is its own.
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    try:
        runpy.run_path(str(program), run_name="__main__")
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        _print(error, program)
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    return code


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _print(error: BaseException, program: Path) -> None:
    """The traceback as the program's author knows it: without our frames and runpy's."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(program):
        frame = frame.tb_next
    traceback.print_exception(error.with_traceback(frame))
    sys.stderr.flush()
