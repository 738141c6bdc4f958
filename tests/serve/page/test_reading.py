"""What is read of the event log for a page: all of it, in time, and on from there."""

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.serve.page import reading as reading_module
from dagster_sparkscale.serve.page.reading import Reader
from dagster_sparkscale.serve.page.stream import Stored
from tests.cli.terminal import Terminal
from tests.fakes import scaled
from tests.observe.stored import store
from tests.serve.page.history import CLUSTER
from tests.watch.deployment import Deployment

KEY = dg.AssetKey("clicks")
NOW = int(time.time())


def past(reader: Reader, *, seconds: float = 60.0, span: float = 7200.0, **more: Any) -> Stored:
    with dg.DagsterInstance.get() as instance:
        return reader.past(
            *(instance, CLUSTER, "clicks", KEY),
            cluster_key="spark_cluster",
            shown="1h",
            since=NOW - span,
            now=NOW,
            seconds=seconds,
            **more,
        )


def ats(found: Stored) -> list[int]:
    return [each.first - NOW for each in found.points]


def keep(*agos: int, kind: type = dg.AssetObservation) -> None:
    with dg.DagsterInstance.get() as instance:
        store(instance, KEY, [Minute(NOW - ago, "running") for ago in agos], kind=kind)


def test_of_a_stream_of_which_nothing_is_stored_there_is_nothing(terminal: Terminal) -> None:
    found = past(Reader())
    assert (ats(found), found.whole_since, found.fault) == ([], NOW - 7200, "")


def test_both_kinds_of_events_are_read_and_what_is_older_is_not(terminal: Terminal) -> None:
    keep(9000, 7300, 7100, 7000)
    keep(600, 540, kind=dg.AssetMaterialization)
    found = past(Reader())
    assert ats(found) == [-7100, -7000, -600, -540]
    assert found.whole_since == NOW - 7200


def test_it_is_read_on_from_where_it_was_read(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(900, 840)
    reader = Reader()
    assert ats(past(reader)) == [-900, -840]
    keep(780, 720)
    monkeypatch.setattr(reading_module, "_read_back", lambda *_: None)
    assert ats(past(reader)) == [-900, -840, -780, -720]


def test_minutes_of_a_clock_that_was_ahead_do_not_hide_those_after_it_was_set_back(
    terminal: Terminal,
) -> None:
    keep(900, 840)
    reader = Reader()
    keep(-86400)
    assert ats(past(reader)) == [-900, -840, 86400]
    with dg.DagsterInstance.get() as instance:
        store(instance, KEY, [Minute(NOW - 60, "running")], at=NOW + 60)
    assert ats(past(reader)) == [-900, -840, -60, 86400]


def test_what_there_is_no_time_for_is_read_the_next_time(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ago in range(3000, 0, -300):
        keep(ago, ago - 60)
    monkeypatch.setattr(reading_module, "_PAGE", 2)
    reader, lengths = Reader(), []
    for _ in range(20):
        found = past(reader, seconds=0.0)
        assert found.whole_since is not None
        # What it says is whole is whole.
        assert ats(found) == [at for at in ats(past_of_all()) if at >= found.whole_since - NOW]
        lengths.append(len(found.points))
        if found.whole_since == NOW - 7200:
            break
    assert lengths[-1] == 20 and lengths[0] < 20 and lengths == sorted(lengths)


def past_of_all() -> Stored:
    page, reading_module._PAGE = reading_module._PAGE, 500
    try:
        return past(Reader())
    finally:
        reading_module._PAGE = page


def test_operations_are_read_with_who_and_why(terminal: Terminal) -> None:
    assert terminal.ask("scale", "clicks", "4", "--reason", "a launch").exit_code == 0
    assert terminal.ask("scale", "clicks", "99").exit_code == 1
    now = time.time()
    with dg.DagsterInstance.get() as instance:
        found = Reader().past(
            *(instance, CLUSTER, "clicks", KEY),
            cluster_key="spark_cluster",
            shown="1h",
            since=now - 3600,
            now=now,
            seconds=60,
        )
    failed, done = found.operations.newest_first(now - 3600)
    assert (failed.operation, failed.ending) == ("rescale", "failed")
    assert failed.by.startswith("a person, ") and "has a maximum of 10" in failed.outcome
    assert (done.ending, done.before, done.asked, done.reached) == ("reached", 2, 4, 4)
    assert done.reason == "a launch" and done.seconds is not None


def test_what_was_to_change_nothing_is_left_out_without_its_run_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many runs the newest ones alone are read, and all events."""
    monkeypatch.setattr(reading_module, "_RUNS", 1)
    deployed = Deployment([scaled("clicks", max_executors=10)])
    job = deployed.defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=deployed.instance, asset_selection=[KEY]).success
    assert deployed.by_hand("set_limits", stream="clicks").success
    for target in (2, 3):
        assert deployed.by_hand("rescale", stream="clicks", target=target).success
    now = time.time()
    found = Reader().past(
        *(deployed.instance, CLUSTER, "clicks", KEY),
        cluster_key="spark_cluster",
        shown="1h",
        since=now - 3600,
        now=now,
        seconds=60,
    )
    assert len(found.operations.runs) == 1 and len(found.operations.events) == 3
    assert [each.asked for each in found.operations.newest_first(now - 3600)] == [3, 2]


def test_few_pages_are_remembered(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "KEPT", 2)
    reader = Reader()
    with dg.DagsterInstance.get() as instance:
        for shown in ("1h", "6h", "24h"):
            reader.past(
                *(instance, CLUSTER, "clicks", KEY),
                cluster_key="spark_cluster",
                shown=shown,
                since=NOW - 60.0,
                now=NOW,
                seconds=1,
            )
    assert [key[2] for key in reader._read] == ["6h", "24h"]


def test_who_has_waited_for_another_page_of_the_stream_does_not_read_for_as_long_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, given = [100.0], list[float]()

    class Taken(contextlib.AbstractContextManager[None]):
        """A lock that another has for 30 seconds."""

        def __enter__(self) -> None:
            clock[0] += 30

        def __exit__(self, *_: object) -> None:
            pass

    reader = Reader()
    reader._read[CLUSTER, "clicks", "1h"] = reading_module._Read(lock=Taken())  # type: ignore[arg-type]
    monkeypatch.setattr(reading_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(reading_module, "_read_back", lambda *all: given.append(all[-1]))
    past(reader, seconds=4.0)
    assert given == [104.0]
