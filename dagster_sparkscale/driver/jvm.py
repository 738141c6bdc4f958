"""Cheap ways to talk to Spark's JVM over py4j.

Every py4j call is a round trip of about 0.3 ms, so an object is turned into JSON over there and
fetched in one call, rather than field by field.
"""

import json
from collections.abc import Iterable
from typing import Any


class Jvm:
    """The JVM of one SparkContext. Not for use by several threads at a time."""

    def __init__(self, context: Any) -> None:
        self.spark = context._jsc.sc()
        """The Scala `org.apache.spark.SparkContext`."""
        self.view = context._jvm
        jackson = self.view.com.fasterxml.jackson
        self._mapper = jackson.databind.ObjectMapper()
        # Scala collections, Options and case classes; and the fields of plain classes such as
        # org.apache.spark.streaming.Time, which have no getters that Jackson would know.
        scala = getattr(jackson.module.scala, "DefaultScalaModule$")
        self._mapper.registerModule(getattr(scala, "MODULE$"))
        self._mapper.setVisibility(
            jackson.annotation.PropertyAccessor.FIELD,
            getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY,
        )

    def read(self, java_object: Any) -> Any:
        """A JVM object as plain Python data, in one call."""
        return json.loads(self._mapper.writeValueAsString(java_object))

    def seq(self, texts: Iterable[str]) -> Any:
        """A Scala Seq of strings."""
        return self.view.PythonUtils.toSeq(list(texts))

    def empty_map(self) -> Any:
        """An immutable empty Scala Map."""
        return self.view.PythonUtils.toScalaMap(self.view.java.util.HashMap())
