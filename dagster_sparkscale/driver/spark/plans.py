"""What the plan of a DataFrame tells of the sources that it reads."""

from collections.abc import Iterator, Mapping
from typing import Any


def streaming_sources(frame: Any) -> list[tuple[str, Mapping[str, str]]]:
    """The format and the options of each streaming source that a DataFrame reads; one that Spark
    tells no options of, such as a table, is left out.

    Args:
        frame: pyspark's.
    """
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves().iterator()
    return [source for leaf in _each(leaves) if (source := _source(leaf)) is not None]


def _source(leaf: Any) -> tuple[str, Mapping[str, str]] | None:
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        return str(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap())
    if kind == "StreamingRelation":  # of a source of Spark's first API, as those of files
        source = leaf.dataSource()
        options = {str(each._1()): str(each._2()) for each in _each(source.options().iterator())}
        return str(source.className()), options
    return None


def _each(iterator: Any) -> Iterator[Any]:
    """The elements of a `scala.collection.Iterator`."""
    while iterator.hasNext():
        yield iterator.next()
