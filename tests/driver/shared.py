"""Something dear that tests share, although some of them end it or leave it changed."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Made for the first test that asks for it, and anew for one that can't use what is there.

    A driver costs seconds, so the tests of a module share one. Each says what it needs of it, so
    that any of them may run alone, and all of them in any order.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._make = make
        self._stack = contextlib.ExitStack()
        self._made: T | None = None

    def __enter__(self) -> "Shared[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self._made = None
        self._stack.close()

    def get(self, usable: Callable[[T], bool]) -> T:
        """What is there, if it is `usable`; else that is ended and another one made."""
        if self._made is None or not usable(self._made):
            self.__exit__()
            self._made = self._stack.enter_context(self._make())
        return self._made
