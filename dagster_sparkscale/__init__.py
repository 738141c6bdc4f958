"""Long-running Spark streaming jobs as Dagster assets that scale themselves.

Names are resolved when first used: the driver imports this package on machines that have nothing
but Spark, and a tracked run must not pay for what it does not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_sparkscale.advice.backtest import NoAdvice as NoAdvice
    from dagster_sparkscale.advice.backtest import run_backtest as run_backtest
    from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy as CapacityPolicy
    from dagster_sparkscale.autoscale.ratio import RatioPolicy as RatioPolicy
    from dagster_sparkscale.clusters.base import ClusterManager as ClusterManager
    from dagster_sparkscale.clusters.kubernetes.application_cluster import (
        SparkApplicationCluster as SparkApplicationCluster,
    )
    from dagster_sparkscale.clusters.kubernetes.cluster import (
        KubernetesCluster as KubernetesCluster,
    )
    from dagster_sparkscale.clusters.local import LocalCluster as LocalCluster
    from dagster_sparkscale.clusters.standalone.cluster import (
        StandaloneCluster as StandaloneCluster,
    )
    from dagster_sparkscale.clusters.standalone.rest_cluster import (
        StandaloneRestCluster as StandaloneRestCluster,
    )
    from dagster_sparkscale.clusters.yarn.client_mode import YarnClientCluster as YarnClientCluster
    from dagster_sparkscale.clusters.yarn.cluster import YarnCluster as YarnCluster
    from dagster_sparkscale.components.spark_streams import SparkStreams as SparkStreams
    from dagster_sparkscale.declare.backpressure import BackpressurePolicy as BackpressurePolicy
    from dagster_sparkscale.declare.backpressure import Retune as Retune
    from dagster_sparkscale.declare.backtest import Backtest as Backtest
    from dagster_sparkscale.declare.bounds import Bounds as Bounds
    from dagster_sparkscale.declare.budget import Budget as Budget
    from dagster_sparkscale.declare.calendar import Calendar as Calendar
    from dagster_sparkscale.declare.calendar import Window as Window
    from dagster_sparkscale.declare.decisions import Hold as Hold
    from dagster_sparkscale.declare.decisions import ScaleTo as ScaleTo
    from dagster_sparkscale.declare.declaration import DeclarationError as DeclarationError
    from dagster_sparkscale.declare.decorator import streaming_asset as streaming_asset
    from dagster_sparkscale.declare.key_groups import KeyGroups as KeyGroups
    from dagster_sparkscale.declare.learner import Learner as Learner
    from dagster_sparkscale.declare.learner import Workload as Workload
    from dagster_sparkscale.declare.limits import SourceLimits as SourceLimits
    from dagster_sparkscale.declare.limits import StreamingLimits as StreamingLimits
    from dagster_sparkscale.declare.lineage import Lineage as Lineage
    from dagster_sparkscale.declare.policies import AutoscalePolicy as AutoscalePolicy
    from dagster_sparkscale.declare.policies import RecoveryPolicy as RecoveryPolicy
    from dagster_sparkscale.declare.realtime import RealTime as RealTime
    from dagster_sparkscale.declare.receivers import ReceiverCount as ReceiverCount
    from dagster_sparkscale.declare.receivers import ReceiverPolicy as ReceiverPolicy
    from dagster_sparkscale.declare.state import State as State
    from dagster_sparkscale.declare.streams import DStream as DStream
    from dagster_sparkscale.declare.streams import StructuredStream as StructuredStream
    from dagster_sparkscale.definitions import build_defs as build_defs
    from dagster_sparkscale.driver.begin.stream_options import stream_options as stream_options
    from dagster_sparkscale.driver.receivers.count import receiver_checkpoint as receiver_checkpoint
    from dagster_sparkscale.driver.receivers.count import receiver_count as receiver_count
    from dagster_sparkscale.observe.evaluation import Evaluation as Evaluation
    from dagster_sparkscale.observe.history import each_minute as each_minute
    from dagster_sparkscale.observe.history import history as history
    from dagster_sparkscale.observe.minutes import Minute as Minute
    from dagster_sparkscale.version import __version__ as __version__
    from dagster_sparkscale.watch.alerts.alerts import Alert as Alert
    from dagster_sparkscale.watch.alerts.sensor import alert_sensor as alert_sensor
    from dagster_sparkscale.watch.alerts.webhooks import SlackWebhook as SlackWebhook
    from dagster_sparkscale.watch.alerts.webhooks import Webhook as Webhook

_HOMES = {
    "Alert": "watch.alerts.alerts",
    "AutoscalePolicy": "declare.policies",
    "BackpressurePolicy": "declare.backpressure",
    "Backtest": "declare.backtest",
    "Bounds": "declare.bounds",
    "Budget": "declare.budget",
    "Calendar": "declare.calendar",
    "CapacityPolicy": "autoscale.capacity.policy",
    "ClusterManager": "clusters.base",
    "DStream": "declare.streams",
    "DeclarationError": "declare.declaration",
    "Evaluation": "observe.evaluation",
    "Hold": "declare.decisions",
    "KeyGroups": "declare.key_groups",
    "KubernetesCluster": "clusters.kubernetes.cluster",
    "Learner": "declare.learner",
    "Lineage": "declare.lineage",
    "LocalCluster": "clusters.local",
    "Minute": "observe.minutes",
    "NoAdvice": "advice.backtest",
    "RatioPolicy": "autoscale.ratio",
    "RealTime": "declare.realtime",
    "ReceiverCount": "declare.receivers",
    "ReceiverPolicy": "declare.receivers",
    "RecoveryPolicy": "declare.policies",
    "Retune": "declare.backpressure",
    "ScaleTo": "declare.decisions",
    "SlackWebhook": "watch.alerts.webhooks",
    "SourceLimits": "declare.limits",
    "SparkApplicationCluster": "clusters.kubernetes.application_cluster",
    "SparkStreams": "components.spark_streams",
    "StandaloneCluster": "clusters.standalone.cluster",
    "StandaloneRestCluster": "clusters.standalone.rest_cluster",
    "State": "declare.state",
    "StreamingLimits": "declare.limits",
    "StructuredStream": "declare.streams",
    "Webhook": "watch.alerts.webhooks",
    "Window": "declare.calendar",
    "Workload": "declare.learner",
    "YarnClientCluster": "clusters.yarn.client_mode",
    "YarnCluster": "clusters.yarn.cluster",
    "__version__": "version",
    "alert_sensor": "watch.alerts.sensor",
    "build_defs": "definitions",
    "each_minute": "observe.history",
    "history": "observe.history",
    "receiver_checkpoint": "driver.receivers.count",
    "receiver_count": "driver.receivers.count",
    "run_backtest": "advice.backtest",
    "stream_options": "driver.begin.stream_options",
    "streaming_asset": "declare.decorator",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
