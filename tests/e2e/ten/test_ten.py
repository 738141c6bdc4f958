"""What the soak of ten streams says of memory and ticks, by samples and ticks that are made up."""

from types import SimpleNamespace
from typing import Any

import pytest
from dagster._core.scheduler.instigation import TickStatus

from dagster_sparkscale.names import MINUTES
from tests.e2e.ten import ticks
from tests.e2e.ten.faults import Fault
from tests.e2e.ten.memory import EVERY, Kind, Sample, compared, kind_of, too_much

BEGUN = 1_000_000.0
HOUR = 3600.0


def one(pid: int, megabytes: Any, *, born: float = 0.0, until: float = HOUR) -> list[Sample]:
    """A daemon that holds `megabytes` of its time, from its start until then."""
    moments = [EVERY * number for number in range(int(HOUR / EVERY)) if EVERY * number >= born]
    return [
        Sample(at, "daemon", None, pid, BEGUN + born, megabytes(at), 10, 20)
        for at in moments
        if at <= until
    ]


def daemon(*samples: list[Sample]) -> Kind | None:
    return compared([each for of in samples for each in of], BEGUN, HOUR).get("daemon")


def test_the_last_quarter_is_compared_with_the_second() -> None:
    found = daemon(one(1, lambda at: 50 if at < 900 else 100 if at < 2700 else 110))
    assert found is not None
    assert (found.growth, found.second_mb, found.last_mb) == (1.1, 100, 110)


def test_what_was_started_late_or_has_ended_says_nothing_of_growth() -> None:
    steady = one(1, lambda _: 100)
    late = one(2, lambda at: at, born=1000.0)
    ended = one(3, lambda at: at, until=3000.0)
    found = daemon(steady, late, ended)
    assert found is not None
    assert (found.growth, found.processes) == (1.0, 1)
    assert daemon(late, ended) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (["python", "-m", "dagster_sparkscale.driver", "--stream", "a"], "driver"),
        (["java", "-cp", "x", "org.apache.spark.deploy.SparkSubmit"], "driver's JVM"),
        (["python", "-I", "/x/clusters/host/supervisor.py", "--dir", "y"], "supervisor"),
        (["python", "-m", "pyspark.daemon", "pyspark.worker"], "Python worker"),
    ],
)
def test_a_process_is_told_by_its_command(line: list[str], kind: str) -> None:
    assert kind_of(line) == kind


def test_what_grows_too_much_is_told_by_each_process_and_by_what_it_has_open() -> None:
    well = {"growth": 1.04, "worst": 1.08, "files": 1.1, "threads": 1.2}
    assert not too_much(well)
    for of in well:
        assert too_much({**well, of: 1.3})


def seen(moments: list[float], faults: list[Fault], failed: float | None = None) -> ticks.Ticks:
    """What is said of ticks at these seconds of ten minutes, of which one may have failed."""
    made = [
        SimpleNamespace(
            timestamp=BEGUN + at,
            end_timestamp=BEGUN + at + 2,
            status=TickStatus.FAILURE if at == failed else TickStatus.SKIPPED,
            error=None,
        )
        for at in moments
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ticks, "_ticks", lambda _instance: made)
        return ticks.ticks(None, BEGUN, BEGUN + 600, faults)  # type: ignore[arg-type]


EACH_MINUTE = [60.0 * number for number in range(10)]
STOPPED = Fault(BEGUN + 290, BEGUN + 340, "stop the daemon", "daemon")


def test_a_minute_without_a_tick_is_lost() -> None:
    assert seen(EACH_MINUTE, []).lost == []
    assert seen([at for at in EACH_MINUTE if at != 300], []).lost == [
        "no tick for 120 s from 240 s on"
    ]
    assert seen(EACH_MINUTE, [], failed=300).lost == ["FAILURE at 300 s: no error"]


def test_a_tick_that_the_daemon_could_not_make_is_told_apart() -> None:
    found = seen([at for at in EACH_MINUTE if at != 300], [STOPPED])
    assert (found.lost, len(found.excused)) == ([], 1)


def test_the_time_in_which_ticks_are_excused_is_told() -> None:
    assert seen(EACH_MINUTE, []).excused_share == 0.0
    of_two = [STOPPED, Fault(STOPPED.began + 10, STOPPED.ended, "kill", "code server")]
    assert seen(EACH_MINUTE, of_two).excused_share == 0.4


def observed(at: float) -> SimpleNamespace:
    event = SimpleNamespace(metadata={MINUTES: 1}, description="scaled")
    return SimpleNamespace(
        timestamp=at,
        asset_materialization=None,
        event_log_entry=SimpleNamespace(asset_observation=event),
    )


def told_of(monkeypatch: pytest.MonkeyPatch, moments: list[float]) -> list[str]:
    """What is found of a stream that Dagster was told of at these seconds of ten minutes."""
    pages = {
        "fetch_observations": [observed(BEGUN + at) for at in moments],
        "fetch_materializations": [],
    }
    instance: Any = SimpleNamespace(
        **{
            name: lambda *_, records=records, **__: SimpleNamespace(records=records, has_more=False)
            for name, records in pages.items()
        }
    )
    begun = [BEGUN + at for at in EACH_MINUTE]
    seen = [SimpleNamespace(at=at) for at in begun]
    monkeypatch.setattr(ticks, "history", lambda *_: seen)
    return ticks.told(instance, "a", BEGUN, BEGUN + 600, begun, begun, []).found


def test_one_event_in_a_tick_is_as_documented_and_two_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told_of(monkeypatch, [5.0, 65.0, 545.0]) == []
    assert told_of(monkeypatch, [5.0, 6.0, 545.0]) == ["2 events in one tick"]


def test_a_fault_of_a_stream_excuses_no_tick() -> None:
    of_stream = Fault(STOPPED.began, STOPPED.ended, "stop a driver", "kafka")
    assert len(seen([at for at in EACH_MINUTE if at != 300], [of_stream]).lost) == 1
