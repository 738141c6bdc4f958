"""The metrics of `sparkscale serve`, and their values in what looks and the event log bring. Pure.

What was not measured has no sample; a state or a cause that is not so has none either.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.steering import Kind
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.metrics.exposition import Metric, Sample, sample
from dagster_sparkscale.driver.metrics.samples import AGENT, EXECUTORS, MOST_QUERIES, samples
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.serve.tally import BUCKETS, Tally
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.fleet.rows import Row, row
from dagster_sparkscale.watch.fleet.verdict import verdict

_CLUSTER, _STREAM = ("cluster",), ("cluster", "stream")

STATE = Metric(
    *("sparkscale_stream_state", "gauge", (*_STREAM, "state")),
    "1 for the state that the stream is in: running, starting, failed, stopped, unknown or not "
    "started.",
)
HEALTH = Metric(
    *("sparkscale_stream_health", "gauge", (*_STREAM, "health")),
    "1 for how the stream is, in the word of its page: healthy, slow, stuck, failed and others.",
)
UP = Metric(
    *("sparkscale_agent_up", "gauge", _STREAM),
    "Whether the agent of a driver that runs has answered.",
)
RATIO = Metric(
    *("sparkscale_ratio", "gauge", (*_STREAM, "query")),
    "R: mean processing time of the batches completed in the window / batch interval. The worst "
    "query decides.",
)
OVERDUE = Metric(
    *("sparkscale_overdue_ratio", "gauge", _STREAM),
    "Age of the batch in progress / batch interval, of the worst query; no series up to 1.",
)
INPUT = Metric(
    *("sparkscale_input_records_per_second", "gauge", _STREAM),
    "Records per second that entered completed batches in the window.",
)
PROCESSED = Metric(
    *("sparkscale_processed_records_per_second", "gauge", _STREAM),
    "Records per second of processing time.",
)
THROTTLED = Metric(
    *("sparkscale_throttled", "gauge", _STREAM),
    "1 while a query takes all that its limit lets it: then R does not say how much more there is.",
)
CHECK = Metric(
    *("sparkscale_check_passed", "gauge", (*_STREAM, "check")),
    "Whether a health check passes; no series while that can't be told.",
)
STEERED = Metric(
    *("sparkscale_steered", "gauge", (*_STREAM, "kind")),
    "1 for each kind of steering in force: freeze, pin, pause, advise, bounds.",
)
RESTARTS = Metric(
    *("sparkscale_restarts_within_day", "gauge", _STREAM),
    "Restarts by recovery within the last 24 hours.",
)
BUDGET = Metric(
    *("sparkscale_budget_cores", "gauge", ("cluster", "group", "kind")),
    "Cores of a group's budget, or with an empty group of the cluster's: allowed, and used by its "
    "drivers that run; used has no series while that of one stream is not known.",
)
TICK = Metric(
    *("sparkscale_autoscaler_last_tick_timestamp_seconds", "gauge", _CLUSTER),
    "When the autoscaler last ticked without failing.",
)
EXECUTOR_SECONDS = Metric(
    *("sparkscale_executor_seconds_total", "counter", _STREAM),
    "Time of registered executors, by the stored minutes; 3600 are an executor-hour.",
)
MEASURED_SECONDS = Metric(
    *("sparkscale_executors_measured_seconds_total", "counter", _STREAM),
    "Time for which the number of executors is known, by the stored minutes.",
)
DECISIONS = Metric(
    *("sparkscale_decisions_total", "counter", (*_STREAM, "decision")),
    "Minutes of the autoscaler that decided to change something, or to hold while running.",
)
RESCALES = Metric(
    *("sparkscale_rescales_total", "counter", (*_STREAM, "ending")),
    "Rescales that are over, by how they ended.",
)
RESCALE_SECONDS = Metric(
    *("sparkscale_rescale_duration_seconds", "histogram", ("cluster", "ending")),
    "How long rescales took, from the start of the operation to its end.",
)
LOOKED = Metric(
    *("sparkscale_look_timestamp_seconds", "gauge", _CLUSTER),
    "When the streams were looked at for what is shown here.",
)
LOOK_SECONDS = Metric(*("sparkscale_look_seconds", "gauge", _CLUSTER), "How long that look took.")
LOG_READ = Metric(
    *("sparkscale_event_log_read", "gauge", _CLUSTER),
    "Whether Dagster's event log could be read for what is shown here.",
)

BESIDE_AGENTS = (
    *(
        STATE,
        HEALTH,
        UP,
        RATIO,
        OVERDUE,
        INPUT,
        PROCESSED,
        THROTTLED,
        CHECK,
        STEERED,
        RESTARTS,
        BUDGET,
    ),
    *(TICK, EXECUTOR_SECONDS, MEASURED_SECONDS, DECISIONS, RESCALES, RESCALE_SECONDS),
    *(LOOKED, LOOK_SECONDS, LOG_READ),
)
"""All that an agent does not tell itself."""
ALL = (
    *(replace(metric, labels=("cluster", *metric.labels)) for metric in AGENT),
    *BESIDE_AGENTS,
)
"""All that is served; what agents tell has the label `cluster` besides."""
_SERVED = {metric.name: metric for metric in ALL}

ENDINGS = ("reached", "short", "superseded", "gone", "receivers missing", "overtaken")
"""How a rescale may have ended (`autoscale/rescale.py`, `operations.py`)."""
OTHER = "other"


def of_stream(cluster: str, assessment: Assessment, shown: Row | None = None) -> Iterator[Sample]:
    """What one look at a stream has brought.

    Args:
        shown: the stream's row on the page; None: as it follows from the look alone.
    """
    situation, evaluation = assessment.situation, assessment.evaluation
    stream, driver, status = situation.stream, situation.driver, situation.status
    of = {"cluster": cluster, "stream": stream.name}
    yield from sample(STATE, 1, **of, state=assessment.state)
    yield from sample(HEALTH, 1, **of, health=verdict(shown or row(assessment)))
    if driver is not None and driver.state is DriverState.RUNNING:
        yield from sample(UP, int(status is not None), **of)
    if status is not None and evaluation is not None:
        for each in samples(status):
            yield replace(
                each, metric=_SERVED[each.metric.name], labels={"cluster": cluster, **each.labels}
            )
    bounds = bounds_in_force(stream, driver, situation.steering)
    kinds = (("minimum", bounds.minimum), ("maximum", bounds.maximum))
    for kind, number in kinds if stream.autoscale is not None else ():
        yield from sample(_SERVED[EXECUTORS.name], number, **of, kind=kind)
    if evaluation is not None:
        for load in evaluation.loads[:MOST_QUERIES]:  # the worst first
            yield from sample(RATIO, load.ratio, **of, query=load.query)
        yield from sample(OVERDUE, evaluation.overdue, **of)
        yield from sample(INPUT, evaluation.input_rate, **of)
        yield from sample(PROCESSED, evaluation.processed_rate, **of)
        if evaluation.throttled is not None:
            yield from sample(THROTTLED, 1, **of)
    for check, finding in assessment.health.items():
        if finding.passed is not None and not (check is Health.BELOW_MAXIMUM and learns(stream)):
            yield from sample(CHECK, int(finding.passed), **of, check=check.value)
    kinds_in_force: set[Kind] = {entry.kind for entry in situation.steering.entries}
    for steered in sorted(kinds_in_force):
        yield from sample(STEERED, 1, **of, kind=steered)
    if driver is not None and driver.restarted_at is not None:
        recent = sum(1 for at in driver.restarted_at if 0 <= situation.now - at < 86400)
        yield from sample(RESTARTS, recent, **of)


def learns(stream: Stream) -> bool:
    """Whether the policy decides by what it has learned of the minutes, which is not known here."""
    try:
        return (
            stream.autoscale is not None and stream.autoscale.learner(stream.workload) is not None
        )
    except Exception:  # a user's own: what it would decide is not known either
        return True


def of_budget(cluster: str, budget: Budget, assessments: Iterable[Assessment]) -> Iterator[Sample]:
    """The cores that a budget allows, and those that are used of it."""
    used: Counter[str] = Counter()
    scopes, unknown = set[str](), set[str]()
    for assessment in assessments:
        stream, executors = assessment.situation.stream, _executors(assessment)
        for scope in budget.scopes(stream):
            scopes.add(scope)
            if executors is None:
                unknown.add(scope)
            else:
                used[scope] += executors * stream.executor_cores
    for scope in sorted(scopes):
        of = {"cluster": cluster, "group": scope}
        yield from sample(BUDGET, budget.most(scope), **of, kind="allowed")
        yield from sample(BUDGET, None if scope in unknown else used[scope], **of, kind="used")


def _executors(assessment: Assessment) -> int | None:
    """Executors that a stream has, or has asked for; None: not known."""
    evaluation = assessment.evaluation
    if evaluation is not None:
        known = [n for n in (evaluation.requested, evaluation.registered) if n is not None]
        return max(known, default=None)
    return 0 if assessment.state in ("stopped", "not started", "failed") else None


def of_tallies(cluster: str, tallies: Mapping[str, Tally]) -> Iterator[Sample]:
    """What the event log says, by stream. What has not happened yet is told as 0: of a counter that
    begins with 1, Prometheus does not count that one."""
    if not tallies:
        return
    durations = {ending: Counter[float]() for ending in (*ENDINGS, OTHER)}
    seconds = dict.fromkeys(durations, 0.0)
    for name, tally in tallies.items():
        of = {"cluster": cluster, "stream": name}
        yield from sample(EXECUTOR_SECONDS, tally.executor_seconds, **of)
        yield from sample(MEASURED_SECONDS, tally.measured_seconds, **of)
        yield from sample(DECISIONS, tally.changes, **of, decision="change")
        yield from sample(DECISIONS, tally.holds, **of, decision="hold")
        rescales = _bounded(tally.rescales)
        for ending in (*ENDINGS, OTHER):
            yield from sample(RESCALES, rescales[ending], **of, ending=ending)
        for (ending, bucket), number in tally.durations.items():
            durations[_ending(ending)][bucket] += number
        for ending, took in tally.seconds.items():
            seconds[_ending(ending)] += took
    for ending, counted in durations.items():
        yield from _histogram({"cluster": cluster, "ending": ending}, counted, seconds[ending])


def _histogram(of: dict[str, str], counted: Counter[float], took: float) -> Iterator[Sample]:
    so_far = 0
    for bucket in BUCKETS:
        so_far += counted[bucket]
        le = "+Inf" if bucket == float("inf") else f"{bucket:g}"
        yield Sample(RESCALE_SECONDS, {**of, "le": le}, so_far, "_bucket")
    yield Sample(RESCALE_SECONDS, of, so_far, "_count")
    yield Sample(RESCALE_SECONDS, of, took, "_sum")


def _bounded(endings: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for ending, number in endings.items():
        found[_ending(ending)] += number
    return found


def _ending(ending: str) -> str:
    return ending if ending in ENDINGS else OTHER
