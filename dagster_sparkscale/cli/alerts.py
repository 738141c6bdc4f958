"""Alerts: whether anybody is told of problems, as `doctor` says it."""

from collections.abc import Iterator

import dagster as dg

from dagster_sparkscale.cli.dagster_side import is_on, states_of
from dagster_sparkscale.cli.locations import Deployed
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.names import ALERTS
from dagster_sparkscale.private_dagster import carried
from dagster_sparkscale.watch.alerts.webhooks import Webhook


def of_alerts(instance: dg.DagsterInstance, deployed: Deployed) -> Iterator[Condition]:
    """The sensors that tell people of a cluster's streams: whether each is switched on, and has an
    address."""
    states, some = states_of(instance, deployed), False
    for sensor in deployed.repository.sensor_defs:
        cluster, webhook = carried(sensor.metadata, ALERTS) or (None, None)
        if cluster == deployed.streams.cluster_key and isinstance(webhook, Webhook):
            some = True
            yield _of_sensor(sensor.name, is_on(sensor, states.get(sensor.name)), webhook)
    if not some:
        yield Condition(
            "alerts",
            f"none for {deployed.owner}: nobody is told of a problem who does not look",
            "declare an alert_sensor",
            urgent=False,
        )


def _of_sensor(name: str, on: bool, webhook: Webhook) -> Condition:
    if not on:
        return Condition(
            name,
            "switched off: nobody is told of a problem by it",
            f"switch it on in the UI, or `dagster sensor start {name}`",
            urgent=False,
        )
    if (why := webhook.why_nowhere()) is not None:
        # The code location may have what this shell has not.
        return Condition(
            name,
            f"{why} here, so nothing can be sent",
            "set it in the environment of the code location; if it is set there, call this with "
            "the same",
            urgent=False,
        )
    return Condition(name, "switched on, and has an address")
