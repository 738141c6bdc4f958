"""The agent's own lines in the driver's log."""

import contextlib
import sys


def say(text: str) -> None:
    """Print one line to stderr, told apart from the program's and Spark's own by its beginning."""
    # Where stderr is gone or closed, the stream matters more than its log.
    with contextlib.suppress(OSError, ValueError):
        print(f"sparkscale: {text}", file=sys.stderr, flush=True)
