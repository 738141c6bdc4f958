"""The sensor that tells people: it reads what the fleet's page says, and sends alerts.

It asks no cluster and no stream: one event says all. So it goes on telling while a cluster hangs,
and what the autoscaler does costs no more for it.
"""

import logging
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_sparkscale.declare.calls import called_right
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import did_you_mean, shown
from dagster_sparkscale.declare.fields import check_cluster_key, check_switch
from dagster_sparkscale.durations import parse_duration, span
from dagster_sparkscale.names import ALERTS, DEFAULT_CLUSTER_KEY, STREAMS, scoped
from dagster_sparkscale.operations import Streams, owner_of
from dagster_sparkscale.private_dagster import carried, carrying, code_location
from dagster_sparkscale.watch.alerts.alerts import AFTER, LEAST, AlertMemory
from dagster_sparkscale.watch.alerts.webhooks import LONGEST, Webhook
from dagster_sparkscale.watch.fleet.events import fleet_key, latest
from dagster_sparkscale.watch.fleet.news import News
from dagster_sparkscale.watch.reads import Reads

INTERVAL = 30
"""Seconds between two ticks."""
SENDING = 10.0
"""Seconds of a tick in which sending an alert may begin; the last may take `webhooks.LONGEST`."""

assert SENDING + LONGEST < 30


_OF_THE_WEBHOOK = "it is one of the webhook, such as SlackWebhook(url, {}=...)"


@called_right(
    {
        "webhook": 'such as SlackWebhook(dg.EnvVar("ALERTS_URL"))',
        **{name: _OF_THE_WEBHOOK.format(name) for name in ("dagster_url", "headers", "texts")},
        "url": 'give a webhook, such as alert_sensor(SlackWebhook(dg.EnvVar("ALERTS_URL")))',
    }
)
def alert_sensor(
    webhook: Webhook,
    *,
    after: Mapping[str, Any] | None = None,
    tell_resolved: bool = True,
    cluster_key: str = DEFAULT_CLUSTER_KEY,
    name: str | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.RUNNING,
) -> dg.SensorDefinition:
    """A sensor that sends an alert for each problem of a stream, once, and once when it is over.

    Args:
        webhook: where alerts go. For two addresses make two sensors, each with its `name`.
        after: how long a problem must last, where that is to be other than usual: `{"pinned":
            "30 min"}`. None in the place of a duration: nobody is told of it.
        tell_resolved: whether it is told that a problem is over.
        cluster_key: of the cluster whose streams these are, as `build_defs` has it.
        name: the sensor's name; `alerts` if left out, with the cluster's key as jobs have it.

    Raises:
        DeclarationError: something else than a webhook, a problem that there is not, what is no
            duration, or another value that can't be. Whether there is such a cluster is known when
            all definitions are: the sensor's ticks fail if there is none.
    """
    _refuse_no_alerts(webhook, name, default_status)
    check_switch("tell_resolved", tell_resolved)
    check_cluster_key(cluster_key)
    lasting = _lasting({} if after is None else after)
    key = fleet_key(cluster_key)
    reads = Reads()

    def send_alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        began, now = time.monotonic(), time.time()
        memory = AlertMemory.load(context.cursor)
        owner = owner_of(code_location(context), cluster_key)
        reads.tick(began + SENDING)
        news = latest(reads.of(context.instance), key, owner)
        if news is not None:
            memory.learn(news, lasting, now, resolved=tell_resolved)
        else:
            _refuse_unknown(cluster_key, context.repository_def)
            memory.hear_nothing(lasting, now)
        memory.dump()  # if it can't be remembered, nothing is sent: it would be again at each tick
        sent, why = _send(webhook, memory, began + SENDING, context.log)
        return dg.SensorResult(skip_reason=_said(news, memory, sent, why), cursor=memory.dump())

    return dg.SensorDefinition(
        name=name or scoped("alerts", cluster_key),
        evaluation_fn=send_alerts,
        minimum_interval_seconds=INTERVAL,
        default_status=default_status,
        description="Sends an alert for each problem of a stream, once, and once when it is over.",
        metadata=carrying(ALERTS, (cluster_key, webhook)),
    )


def _refuse_no_alerts(webhook: Any, name: Any, default_status: Any) -> None:
    """Refuse arguments of which no alert sensor can be made."""
    if not isinstance(webhook, Webhook):
        raise DeclarationError(
            f"webhook: a {type(webhook).__name__}; must be a Webhook or a SlackWebhook"
        )
    if not isinstance(default_status, dg.DefaultSensorStatus):
        raise DeclarationError(
            f"default_status = {shown(default_status)}: must be a dagster.DefaultSensorStatus"
        )
    if name is not None and not (isinstance(name, str) and re.fullmatch("[A-Za-z0-9_]+", name)):
        raise DeclarationError(
            f"name = {shown(name)}: must be letters, digits and underscores, or None"
        )


def _send(
    webhook: Webhook, memory: AlertMemory, until: float, log: logging.Logger
) -> tuple[int, str]:
    """Send what is in the queue, one by one, as long as each is taken.

    Args:
        until: when the last may begin, by `time.monotonic()`.

    Returns:
        How many were sent, and why the next one was not; empty: it was, or its time had not come.
    """
    sent, why = 0, ""
    while memory.queue and time.monotonic() < until:
        alert = memory.queue[0]
        answer = webhook.send(alert, memory.dropped)
        goes_on = memory.settle(answer.outcome)
        dropped = not memory.queue or memory.queue[0] != alert
        if not goes_on:
            why = answer.why
            if dropped:
                log.error(f"An alert is dropped, for {why}: {alert}")
            break
        sent += 1
    return sent, why


def _refuse_unknown(cluster_key: str, repository: dg.RepositoryDefinition | None) -> None:
    """Refuse a key that no cluster has among the definitions."""
    if not carrying(STREAMS, cluster_key):
        return  # this Dagster can't tell which there are
    sensors = repository.sensor_defs if repository else ()
    found = [carried(each.metadata, STREAMS) for each in sensors]
    known = [streams.cluster_key for streams in found if isinstance(streams, Streams)]
    if repository is not None and cluster_key not in known:
        there_is = f"there is {', '.join(map(repr, sorted(known)))}" if known else "there is none"
        raise DeclarationError(
            f"cluster_key = {cluster_key!r}: must be that of a build_defs in this code location; "
            f"{there_is}"
        )


def _said(news: News | None, memory: AlertMemory, sent: int, why: str) -> str:
    """What the tick says of itself."""
    text = f"Sent: {sent}. Problems that people know of: {len(memory.told)}."
    if news is None:
        never = "Nothing has been told of the fleet yet: the sensor autoscaler does that."
        if not memory.told:
            return never
        text = f"{never} {text}"
    if memory.queue:
        text += f" Alerts that wait: {len(memory.queue)}"
        text += f", for {why}; they are sent again." if why else "."
    elif why:
        text += f" Dropped, for {why}."
    return text


def _lasting(after: Mapping[str, Any]) -> dict[str, float]:
    """How long each problem must last before it is reported, seconds; refuses another problem, and
    what is no duration."""
    if not isinstance(after, Mapping):
        raise DeclarationError(
            f'after = {shown(after)}: must be a dict, such as {{"pinned": "30 min"}}'
        )
    lasting = dict(AFTER)
    for problem, duration in after.items():
        if problem not in AFTER:
            raise DeclarationError(
                f"after: no problem is {shown(problem)};{did_you_mean(problem, AFTER)} there is "
                f"{', '.join(AFTER)}"
            )
        if duration is None:
            del lasting[problem]
            continue
        try:
            lasting[problem] = parse_duration(duration)
            if not 0 <= lasting[problem] < math.inf:
                raise ValueError("must not be negative, and end")
            if lasting[problem] < (least := LEAST.get(problem, 0.0)):
                raise ValueError(
                    f"must be at least {span(least)}: a fleet in which nothing changes is told of "
                    "every 10 minutes"
                )
        except ValueError as error:
            raise DeclarationError(f"after[{problem!r}] = {shown(duration)}: {error}") from None
    return lasting
