"""Cheap ways to talk to Spark's JVM over py4j.

Every py4j call is a round trip of about 0.3 ms, so an object is turned into JSON over there and
fetched in one call, rather than field by field.
"""

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def active_context() -> Any:
    """The program's SparkContext; None if it has stopped it, or has none yet."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None or context._jsc is None else context


def is_missing_file(error: Exception) -> bool:
    """Whether it failed as there is no such file."""
    from py4j.protocol import Py4JJavaError

    return isinstance(error, Py4JJavaError) and error.java_exception.getClass().getName() in (
        "java.io.FileNotFoundException",
        "java.nio.file.NoSuchFileException",
    )


class Lifetime:
    """The lifetime of one SparkContext."""

    def __init__(self, context: Any) -> None:
        self._context, self._java = context, context._jsc

    @property
    def over(self) -> bool:
        """Whether the program has stopped it. Asks no JVM."""
        return self._context._jsc is not self._java


class PerContext(Generic[T]):
    """What is made anew for each SparkContext that the program has. For one thread."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._of: Any = None
        self._made: T | None = None

    def get(self) -> T | None:
        """The lifetime of the active SparkContext; None if none is active."""
        context = active_context()
        if context is None:
            return None
        java = context._jsc
        if self._made is None or java is not self._of:
            self._made, self._of = self._make(context), java
        return self._made


class Jvm:
    """The JVM of one SparkContext."""

    def __init__(self, context: Any) -> None:
        self.spark = context._jsc.sc()
        """The Scala `org.apache.spark.SparkContext`."""
        self.view = context._jvm

    @functools.cached_property
    def _mapper(self) -> Any:
        jackson = self.view.com.fasterxml.jackson
        mapper = jackson.databind.ObjectMapper()
        # Scala collections, Options and case classes; and the fields of plain classes such as
        # org.apache.spark.streaming.Time, which have no getters that Jackson would know.
        scala = getattr(jackson.module.scala, "DefaultScalaModule$")
        mapper.registerModule(getattr(scala, "MODULE$"))
        mapper.setVisibility(
            jackson.annotation.PropertyAccessor.FIELD,
            getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY,
        )
        return mapper

    def read(self, java_object: Any) -> Any:
        """A JVM object as plain Python data, in one call. Needs the Jackson that Spark brings."""
        return json.loads(self._mapper.writeValueAsString(java_object))

    def seq(self, texts: Iterable[str]) -> Any:
        """A Scala Seq of strings."""
        return self.view.PythonUtils.toSeq(list(texts))

    def empty_map(self) -> Any:
        """An immutable empty Scala Map."""
        return self.view.PythonUtils.toScalaMap(self.view.java.util.HashMap())
