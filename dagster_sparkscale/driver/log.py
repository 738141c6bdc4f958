"""The driver's log: the agent's own lines in it, and output that nobody reads any more."""

import contextlib
import io
import sys
from typing import Any, TextIO


def say(text: str) -> None:
    """Print one line to stderr, told apart from the program's and Spark's own by its beginning."""
    write_line(sys.stderr, f"sparkscale: {text}")


def write_line(output: TextIO | None, line: str) -> None:
    """Write one line in one piece: `print` writes its end by itself, and a driver's output is not
    buffered, so the lines of two threads would run into one."""
    # Where the output is gone or closed, the stream matters more than its log.
    with contextlib.suppress(OSError, ValueError):
        if output is not None:
            output.write(f"{line}\n")
            output.flush()


class _Unbroken(io.FileIO):
    """A pipe that stays open to its writer after its reader has gone: what is written is lost."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def outlive_readers() -> None:
    """Let the program print on after whoever keeps its log has died: it would end of that."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        raw: Any = _Unbroken(stream.fileno(), "w", closefd=False)
        unbroken = io.TextIOWrapper(
            raw if stream.write_through else io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, unbroken)
