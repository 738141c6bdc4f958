"""What goes wrong at the service or on the way to it: tried again, within bounds, not for ever."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.sources.kinesis.service import BROKEN_ANSWERS
from tests.sources.kinesis.faults import Rule
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import (
    APART,
    ONE,
    Sink,
    failure,
    run,
    running,
    streamed,
    until,
)

pytestmark = [pytest.mark.spark, pytest.mark.clusters]
Make = Callable[..., Stream]
Fault = Callable[[FaultProxy, str], Rule]

TOO_MUCH = "ProvisionedThroughputExceededException"
FAULTS: dict[str, Fault] = {
    "throttled": lambda proxy, call: proxy.fail(call, TOO_MUCH, times=3),
    "internal failure": lambda proxy, call: proxy.fail(call, status=500, times=2),
    "unavailable": lambda proxy, call: proxy.fail(call, status=503, times=2),
    "closed": lambda proxy, call: proxy.drop(call, times=2),
    "cut short": lambda proxy, call: proxy.cut(call, times=2),
    "silent": lambda proxy, call: proxy.hang(call),
}
FIRST = next(iter(FAULTS))
EXPIRED: Fault = lambda proxy, call: proxy.fail(call, "ExpiredIteratorException", times=2)  # noqa: E731
LOT, SIZE = 60, 20_000
"""Records, and bytes of each: so many that the plan does not carry all, and a task has to read."""


@ONE
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["throttled", "cut short", "expired"], id="some"),
        pytest.param([*FAULTS, "expired"], id="all", marks=APART),
    ],
)
def test_faults_of_every_call_are_overcome(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path, names: list[str]
) -> None:
    """Those that a plan meets, and those that a task meets."""
    made = stream()
    sink = Sink()
    frame = streamed(session, made, proxy.url)
    with running(frame, sink, tmp_path) as query:

        def deliver() -> None:
            made.put(LOT, size=SIZE)
            until(query, f"{made.total} rows", lambda: len(sink) >= made.total)

        deliver()
        for name in names:
            fault = {**FAULTS, "expired": EXPIRED}[name]
            asked = ("GetRecords",) if name == "expired" else ("ListShards", "GetRecords")
            rules = [fault(proxy, call) for call in asked]
            if name != "expired":
                # Not waited for: a shard that is read all the time needs no other iterator.
                fault(proxy, "GetShardIterator")
            deliver()
            until(query, f"{name} in planning", lambda rules=rules: not any(r.left for r in rules))
            proxy.heal()
            rule = met_by_a_task(proxy, sink, fault, deliver)
            assert rule.left == 0, f"no task has met with {name}"
    made.assert_complete(sink.rows)


def met_by_a_task(proxy: FaultProxy, sink: Sink, fault: Fault, deliver: Callable[[], None]) -> Rule:
    """The rule, once a task has met with it to its last call."""
    rules: list[Rule] = []

    def before() -> None:
        if not rules:
            rules.append(fault(proxy, "GetRecords"))

    sink.before = before
    for _ in range(5):
        rules.clear()
        deliver()
        met = bool(rules) and rules[0].left == 0
        if met:
            break
        proxy.heal()
    sink.before = lambda: None
    return rules[0]


@APART
def test_within_the_limits_of_the_service_it_is_hardly_ever_refused(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream(2)
    proxy.limits = True
    sink = Sink()
    made.put(2400, size=2500)
    frame = streamed(session, made, proxy.url, respectServiceLimits=None, readTimeout="10s")
    with running(frame, sink, tmp_path, processingTime="0 seconds") as query:
        until(query, "the first rows", lambda: len(sink))
        for _ in range(8):
            begun = len(sink)
            made.put(40)
            until(query, "more rows", lambda begun=begun: len(sink) > begun)
        until(query, "all rows", lambda: len(sink) >= made.total)
        calls = proxy.log("GetRecords")
    made.assert_complete(sink.rows)
    refused = sum(proxy.throttled.values())
    print(f"{refused} of {len(calls)} refused; {sum(proxy.bytes.values())} bytes read")
    assert refused <= len(calls) / 5
    for shard, size in proxy.bytes.items():
        delivered = sum(len(each.data) for each in sink.all if each.shardId == shard)
        assert size < 2 * delivered + 100_000
    for shard in made.shards():
        times = proxy.times("GetRecords", shard.id)
        seconds = times[-1] - times[0]
        # A planner and a task, each within the limits; and what was refused.
        assert len(times) <= 2 * (5 * seconds + 5)


@ONE
@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=APART) for name in FAULTS if name != FIRST)]
)
def test_a_fault_that_does_not_end_is_an_error_after_so_many_tries(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path, name: str
) -> None:
    """Of a plan and of a task; the error says which call it was, and what came back."""
    said = {
        "throttled": TOO_MUCH,
        "internal failure": "InternalFailure",
        "unavailable": "ServiceUnavailable",
        "closed": "cannot be reached",
        "cut short": "does not answer as Kinesis",
        "silent": "cannot be reached",
    }[name]
    made = stream()
    made.put(LOT, size=SIZE)

    def for_ever() -> None:
        FAULTS[name](proxy, "GetRecords").left = 10**9

    frame = streamed(session, made, proxy.url, maxRetries=1)
    sink = Sink(before=for_ever)
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert "GetRecords".lower() in error.lower().replace("_", "") and said in error
    rule, *_ = [call for call in proxy.log("GetRecords") if call.outcome != "ok"]
    bad = [call for call in proxy.log("GetRecords") if call.outcome == rule.outcome]
    # boto3 takes an answer that was cut for an empty one, and the source tries itself.
    assert len(bad) == (BROKEN_ANSWERS if name == "cut short" else 2)
    # The same for the plan of the next try, which begins with that call.
    with running(frame, Sink(), tmp_path) as query:
        error = failure(query)
    assert said in error
    proxy.heal()
    done = Sink()
    run(frame, done, tmp_path)
    made.assert_complete(done.rows)
