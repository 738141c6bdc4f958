"""The library's clock, in a test's hands.

`time` is one module for the whole process, and threads live in it that have nothing to do with the
test: py4j's sleep between two looks at their work. So a function of it is replaced for the library
alone.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest


def replace(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Any]) -> None:
    """`time.<name>()` is `function` to modules of the library, and what it was to others."""
    real = getattr(time, name)

    def called(*args: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return (function if caller.startswith("dagster_sparkscale.") else real)(*args)

    monkeypatch.setattr(time, name, called)
