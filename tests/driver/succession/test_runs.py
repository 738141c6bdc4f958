"""Why a query can't be ended and started again, by its writer and its session; without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.succession import writers
from dagster_sparkscale.driver.succession.runs import Run, _why_never


def writer() -> Any:
    class DataStreamWriter:
        def option(self, name: str, value: str) -> Any:
            return self

        def trigger(self, *, processingTime: str) -> Any:
            return self

        def start(self) -> None:
            self.option("path", "there")

    writers.watch(DataStreamWriter)
    return DataStreamWriter()


class Settings(dict[str, str]):
    """A Java Map."""

    def equals(self, other: Any) -> bool:
        return self == other


def session(settings: Settings, *listeners: str) -> Any:
    found = [
        SimpleNamespace(getClass=lambda name=name: SimpleNamespace(getName=lambda: name))
        for name in listeners
    ]
    streams = SimpleNamespace(listListeners=lambda: found)
    conf = SimpleNamespace(getAllAsJava=lambda: settings)
    return SimpleNamespace(
        _jsparkSession=SimpleNamespace(streams=lambda: streams, conf=lambda: conf)
    )


def run(by: Any, at: Any = None, fixed: str | None = None, was: Any = None) -> Run:
    new: Any = SimpleNamespace(session=at)
    started: Any = SimpleNamespace(writer=by, new=new)
    return Run(
        *(started, None, "run 1", "query", 1),
        lifetime=SimpleNamespace(over=False),  # type: ignore[arg-type]
        changes=writers.changes(by),
        settings=was,
        properties=None,
        fixed=fixed,
    )


def test_a_writer_that_is_as_it_was_starts_it_again():
    by = writer().option("a", "1").trigger(processingTime="1 second")
    by.start()
    assert writers.changes(by) == 3
    assert run(by).why_not() is None


@pytest.mark.parametrize("change", [lambda w: w.option("a", "2"), lambda w: w.start()])
def test_one_that_was_changed_or_used_since_does_not(change):
    by = writer()
    by.start()
    one = run(by)
    change(by)
    assert one.why_not() == (
        "its writer was changed, or used for another query, after it was started"
    )


def test_what_never_can_be_is_said_first():
    assert run(writer(), fixed="its trigger is OneTimeTrigger").why_not_now() == (
        "its trigger is OneTimeTrigger"
    )


@pytest.mark.parametrize(
    ("format", "more", "why"),
    [
        (None, {}, None),
        ("memory", {}, "it writes to memory: a new start would begin with an empty table"),
        ("parquet", {"pinned": False}, "PYSPARK_PIN_THREAD is off"),
        ("parquet", {"trigger": "OneTimeTrigger"}, "its trigger is OneTimeTrigger: only"),
        ("parquet", {"logs_late": True}, "its progress is tracked asynchronously"),
    ],
)
def test_what_never_can_be_is_known_from_the_start(format, more, why):
    known = {"pinned": True, "trigger": "ProcessingTimeTrigger", "logs_late": False, **more}
    ending: Any = SimpleNamespace(**known)
    found = _why_never(ending, NewQuery(None, {}, format=format))
    assert found is None if why is None else (found or "").startswith(why)


def test_settings_that_have_changed_are_named():
    was = Settings(a="1", b="1", c="1", d="1", e="1")
    by = writer()
    assert run(by, session(Settings(was)), was=was).why_not_now() is None
    now = session(Settings(a="2", b="2", c="2", d="2", f="9"))
    assert run(by, now, was=was).why_not_now() == (
        "the program has set a, b, c and 3 more since it was started, and it would begin by that"
    )


def test_a_listener_of_the_jvm_would_be_told_of_the_end():
    own = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"
    nothing = Settings()
    by = writer()
    assert run(by, session(nothing, own), was=nothing).why_not_now() is None
    assert run(by, session(nothing, own, "com.acme.Pager"), was=nothing).why_not_now() == (
        "com.acme.Pager, a StreamingQueryListener of the JVM, would be told that it ended"
    )
