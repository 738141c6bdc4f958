"""Runs the user's program as `python program.py arguments...` would."""

import builtins
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

_replaced: list[object] = []
"""The module that was `__main__` before the program's; kept, as its code goes on running."""


def run(
    program: Path,
    arguments: Sequence[str],
    let_finish: Callable[[], None] = lambda: None,
    died: Callable[[BaseException], None] = lambda _: None,
) -> int:
    """Run the program in this process, until it and its threads have ended. Its exit code.

    `__main__` stays the program's module: its threads and what it has registered with atexit may
    pickle its functions and classes later.

    Args:
        let_finish: called when the program has returned: what it left running may go on until this
            does, with all that Python has.
        died: called with what the program has raised, or has ended itself with (`sys.exit("why")`).
    """
    sys.argv = [str(program), *arguments]
    # The first entry is the current folder, as it is for `python -m`; of a program it is its own.
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    _replaced.append(sys.modules.get("__main__"))
    module = _main_module(program)
    sys.modules["__main__"] = module
    code = _outcome(program, module, died)
    let_finish()
    # What the interpreter does before anything else at its end, and here has to be over before the
    # exit code is known: it wakes the workers of idle pools, and waits for all threads that are no
    # daemons. multiprocessing calls it for its children likewise.
    threading._shutdown()  # type: ignore[attr-defined]
    return code


def _main_module(program: Path) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=str(program),
        __cached__=None,
        __loader__=SourceFileLoader("__main__", str(program)),
        __builtins__=builtins,
        __annotations__={},
    )
    return module


def _outcome(program: Path, module: types.ModuleType, died: Callable[[BaseException], None]) -> int:
    try:
        code = compile(program.read_bytes(), str(program), "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            died(end)
        return _exit_code(end)
    except BaseException as error:
        died(error)
        interrupted = isinstance(error, KeyboardInterrupt)
        return _report(error, program) or (130 if interrupted else 1)
    return 0


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _report(error: BaseException, program: Path) -> int | None:
    """Hand what the program raised to `sys.excepthook`, where an error reporter may have set its
    own. The exit code that the hook asks for, if it does.

    The traceback is as the program's author knows it: without our frames.
    """
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(program):
        frame = frame.tb_next
    error = error.with_traceback(frame)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frame
    try:
        sys.excepthook(type(error), error, frame)
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as broken:
        # As the interpreter words it.
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(broken)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
    return None
