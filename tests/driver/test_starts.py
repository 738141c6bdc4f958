"""What is done around the start of a query by PySpark; its DataStreamWriter is played."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming import readwriter

from dagster_sparkscale.driver.batches.structured import StructuredStreaming


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_held_for_a_start_is_held_until_spark_has_started_it(monkeypatch, fails):
    done: list[str] = []

    class DataStreamWriter:
        _spark = SimpleNamespace(_sc=None)

        def option(self, key: str, value: str) -> Any:
            return self

        options = queryName = format = foreach = foreachBatch = option

        def start(self, **options: Any) -> Any:
            done.append("start")
            if fails:
                raise ValueError("no such sink")
            return SimpleNamespace(_jsq=None)

        toTable = start

    @contextmanager
    def starting(new):
        done.append(f"held for {new.options['queryName']}")
        try:
            yield
        finally:
            done.append("let go")

    monkeypatch.setattr(readwriter, "DataStreamWriter", DataStreamWriter)
    private: Any = SimpleNamespace(use=lambda feature, does, otherwise: does())
    queries: Any = SimpleNamespace(label=lambda name, id: name)
    of = StructuredStreaming(
        *(queries, private, lambda new: done.append("before")), starting=starting
    )
    of.install()
    if fails:
        with pytest.raises(ValueError, match="no such sink"):
            DataStreamWriter().start(queryName="counts")
    else:
        DataStreamWriter().start(queryName="counts")
    assert done == ["held for counts", "before", "start", "let go"]
