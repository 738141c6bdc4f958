"""A value of an object that is computed when it is first asked for, and then kept."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as once
else:

    class once:  # it decorates, as `cached_property` does
        """`cached_property` without the lock that it has up to Python 3.11: one for all objects of
        a class, on which the sensors of a code location wait for each other."""

        def __init__(self, compute):
            self._compute = compute

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, one, owner=None):
            if one is None:
                return self
            value = one.__dict__[self._name] = self._compute(one)
            return value


__all__ = ["once"]
