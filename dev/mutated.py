"""The modules that `make mutants` changes, each with the tests that stand beside it.

The tests of whole deployments would notice more, minutes later: what a module does is to be seen
here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Modules = Mapping[str, tuple[str, ...]]

_ROOT = Path(__file__).parents[1]
PACKAGE = _ROOT / "dagster_sparkscale"
_HEAD = re.compile(r'"""(.*?)"""', re.DOTALL)


def says_pure(module: Path) -> bool:
    """Whether the docstring of a module says that it is pure: what it does depends on nothing but
    its arguments. `tests/test_public_api.py` refuses Dagster, Spark, clocks and I/O there."""
    head = _HEAD.match(module.read_text(encoding="utf-8"))
    return head is not None and re.search(r"\bPure\b", head.group(1)) is not None


def _tests_of(module: str) -> tuple[str, ...]:
    """Patterns of files below `tests`; what is marked as in need of Spark is left out of them."""
    return _OTHER_TESTS.get(module) or _tests_by_name(Path(module))


def _tests_by_name(module: Path) -> tuple[str, ...]:
    """`autoscale/test_lag*.py` of `autoscale/lag.py`: in the folder of its name, or one above."""
    patterns = (f"{folder}/test_{module.stem}*.py" for folder in module.parents)
    return next(((each,) for each in patterns if [*(_ROOT / "tests").glob(each)]), ())


# Where these are not the tests of its name, or not these alone.
_OTHER_TESTS: Modules = {
    "names.py": ("watch/test_alert_sensor.py", "watch/test_fleet_events.py"),
    "serve/metrics.py": ("serve/test_serve.py",),
    "serve/page/charts.py": ("serve/page/test_stream_page.py",),
    "serve/page/elements.py": ("serve/page/test_html.py",),
    "quantities.py": ("backpressure/test_recommend.py", "observe/test_receivers.py"),
    "typed_json.py": ("clusters/host/test_folders*.py", "observe/test_status*.py"),
    "autoscale/lag.py": ("autoscale/test_lag*.py", "autoscale/test_reasons*.py"),
    "autoscale/ratio.py": (
        "autoscale/test_beside_limits*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_ratio*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_warm_up*.py",
    ),
    "autoscale/rules.py": (
        "autoscale/test_beside_limits*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_ratio*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_warm_up*.py",
    ),
    "autoscale/spark_conf.py": ("declare/test_policies*.py",),
    "autoscale/steps.py": (
        "autoscale/test_beside_limits*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_ratio*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
    ),
    "autoscale/throttle.py": ("autoscale/test_beside_limits*.py",),
    **dict.fromkeys(
        (
            "backpressure/advice.py",
            "backpressure/recommend_options.py",
            "backpressure/recommend_rates.py",
        ),
        ("backpressure/test_recommend*.py",),
    ),
    "backpressure/throughput.py": (
        "backpressure/test_recommend*.py",
        "backpressure/test_throughput.py",
    ),
    **dict.fromkeys(("clusters/conditions.py", "cli/room.py"), ("cli/test_doctor.py",)),
    "clusters/launch/driver_options.py": (
        "clusters/host/test_drivers*.py",
        "clusters/test_driver_options*.py",
    ),
    "clusters/fate.py": ("clusters/host/test_drivers*.py", "clusters/test_fate*.py"),
    "in_force/limits.py": ("backpressure/test_tunables.py", "in_force/test_limits.py"),
    "declare/backpressure.py": (
        "declare/test_backpressure*.py",
        "declare/test_drift*.py",
        "declare/test_limits*.py",
    ),
    "declare/bounds.py": ("autoscale/test_shards*.py", "declare/test_stream_bounds*.py"),
    **dict.fromkeys(
        ("declare/calls.py", "watch/alerts/sensor.py"), ("watch/test_alert_sensor.py",)
    ),
    "declare/decisions.py": ("autoscale/test_ratio*.py", "watch/test_assess*.py"),
    "declare/declaration.py": ("declare/test_every_fault.py", "declare/test_streams*.py"),
    "declare/decorator.py": ("declare/test_streams*.py",),
    **dict.fromkeys(
        ("declare/faults.py", "declare/fields.py"),
        (
            "declare/test_every_fault.py",
            "declare/test_streams*.py",
            "declare/test_wrong_values*.py",
        ),
    ),
    "declare/key_groups.py": ("declare/test_key_groups*.py", "declare/test_state*.py"),
    "declare/limits.py": (
        "declare/test_backpressure*.py",
        "declare/test_limits*.py",
        "declare/test_wrong_values*.py",
    ),
    "declare/part.py": ("declare/test_drift*.py", "declare/test_streams*.py"),
    "declare/rates.py": ("declare/test_backpressure*.py", "declare/test_limits*.py"),
    "declare/reserved.py": (
        "declare/test_backpressure*.py",
        "declare/test_limits*.py",
        "declare/test_streams*.py",
    ),
    **dict.fromkeys(("declare/stream.py", "declare/streams.py"), ("declare/test_*.py",)),
    **dict.fromkeys(
        ("driver/batches/offsets.py", "driver/kafka/lag.py"), ("driver/test_kafka_lag*.py",)
    ),
    "driver/ending/end_report.py": (
        "driver/test_stop_report*.py",
        "driver/test_outcome*.py",
        "observe/test_end_report*.py",
    ),
    "driver/lineage/plan.py": ("driver/lineage/test_events*.py", "declare/test_lineage*.py"),
    "driver/batches/progress.py": (
        "driver/test_progress*.py",
        "driver/test_queries*.py",
        "driver/test_reports*.py",
    ),
    "driver/receivers/rates.py": ("driver/test_receiver_amounts*.py",),
    "driver/receivers/watch.py": ("driver/test_receiver_watch*.py",),
    "driver/backpressure/batch_times.py": ("driver/backpressure/test_work*.py",),
    "driver/backpressure/cost_model.py": (
        "driver/backpressure/test_cost_model*.py",
        "driver/backpressure/test_work*.py",
    ),
    "driver/backpressure/pid.py": ("driver/backpressure/test_pid.py",),
    "driver/backpressure/measured.py": ("driver/backpressure/test_estimators*.py",),
    "driver/backpressure/source.py": ("driver/backpressure/test_limiter*.py",),
    **dict.fromkeys(
        (
            "driver/state/closing.py",
            "driver/state/layout.py",
            "driver/state/hook.py",
            "driver/state/journal.py",
            "driver/state/logs.py",
            "driver/state/reconfigure.py",
            "driver/state/reporting.py",
            "driver/state/tasks.py",
            "driver/state/undo.py",
        ),
        ("driver/state/test_*.py",),
    ),
    "observe/evaluate.py": (
        "autoscale/test_reasons*.py",
        "autoscale/test_warm_up*.py",
        "observe/test_evaluation*.py",
    ),
    "observe/end_report.py": (
        "observe/test_end_report*.py",
        "observe/test_raised*.py",
        "observe/test_stop_report*.py",
    ),
    "observe/throttling.py": ("autoscale/test_beside_limits*.py", "observe/test_evaluation*.py"),
    "watch/alerts/alerts.py": ("watch/test_alert_patterns.py", "watch/test_alerts*.py"),
    "watch/assess.py": ("watch/test_assess*.py", "watch/test_own_policy*.py"),
    "watch/fleet/rows.py": ("watch/test_fleet.py",),
    "watch/fleet/memory.py": ("watch/test_fleet_events.py",),
    "watch/fleet/text.py": ("watch/test_fleet_words.py",),
    "watch/sighting.py": (
        "watch/test_assess*.py",
        "watch/test_collect*.py",
        "watch/test_missed.py",
    ),
    "kafka/page.py": ("watch/test_kafka.py",),
    "observe/findings.py": ("watch/test_health*.py",),
    "receivers/faults.py": ("receivers/test_page.py", "watch/test_health*.py"),
    "state/after_change.py": ("watch/test_assess*.py",),
    "state/task_waves.py": ("watch/test_assess*.py",),
    "watch/fleet/news.py": ("watch/test_alert_patterns.py", "watch/test_alerts*.py"),
    "markdown.py": ("test_markdown.py", "watch/test_overview*.py"),
    "backpressure/set_limits.py": ("backpressure/test_set_limits.py",),
    "clusters/kubernetes/launch.py": (
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_launch.py",
        "clusters/kubernetes/test_starts_cut_off.py",
    ),
    "clusters/kubernetes/drivers.py": (
        "clusters/kubernetes/test_driver_pods*.py",
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_silent_nodes.py",
    ),
    "clusters/kubernetes/executors.py": ("clusters/kubernetes/test_silent_nodes.py",),
    "clusters/kubernetes/cluster.py": (
        "clusters/kubernetes/test_cluster*.py",
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_silent_nodes.py",
        "clusters/kubernetes/test_snapshot.py",
    ),
    "lifecycle/assets.py": (
        "lifecycle/test_*.py",
        "test_definitions.py",
        "test_refused_declarations.py",
    ),
    "lifecycle/jobs.py": ("lifecycle/test_*.py", "watch/test_runs.py"),
    "lifecycle/reconcile.py": ("lifecycle/test_*.py",),
    "lifecycle/remedies.py": ("lifecycle/test_*.py", "watch/test_orphans.py"),
    "lifecycle/trial.py": ("lifecycle/test_trial.py", "receivers/test_recount*.py"),
    "receivers/preflight.py": ("receivers/test_*.py",),
    **dict.fromkeys(
        ("receivers/recount_follow.py", "receivers/recount_restart.py"),
        ("receivers/test_recount*.py",),
    ),
    **dict.fromkeys(
        ("backpressure/apply.py", "backpressure/fallback.py"),
        (
            "backpressure/test_apply.py",
            "backpressure/test_putting_back.py",
            "backpressure/test_retune*.py",
        ),
    ),
}

# What acts, where the order of two steps decides what a kill between them leaves behind, and what
# locks and clocks are part of. Its tests play what it acts on in memory, or on this disk.
_ACTING = (
    "backpressure/set_limits.py",
    "clusters/kubernetes/launch.py",
    "clusters/kubernetes/store.py",
    "clusters/kubernetes/snapshot.py",
    "clusters/kubernetes/drivers.py",
    "clusters/kubernetes/executors.py",
    "clusters/kubernetes/cluster.py",
    "driver/batches/history.py",
    "driver/operation_order.py",
    "driver/backpressure/limiter.py",
    "driver/state/closing.py",
    "driver/state/hook.py",
    "driver/state/journal.py",
    "driver/state/logs.py",
    "driver/state/reconfigure.py",
    "driver/state/reporting.py",
    "driver/state/tasks.py",
    "driver/state/undo.py",
    "lifecycle/assets.py",
    "lifecycle/jobs.py",
    "lifecycle/reconcile.py",
    "lifecycle/remedies.py",
    "lifecycle/trial.py",
    "sources/kinesis/quota.py",
    "receivers/preflight.py",
    "receivers/rebalance.py",
    "receivers/recount.py",
    "receivers/recount_follow.py",
    "receivers/recount_restart.py",
    "backpressure/apply.py",
    "backpressure/fallback.py",
    "watch/alerts/sensor.py",
    "cli/logs.py",
)

# What decides, and what it decides on.
PURE: Modules = {
    name: _tests_of(name)
    for path in sorted(PACKAGE.rglob("*.py"))
    if says_pure(path)
    for name in [path.relative_to(PACKAGE).as_posix()]
}
ACTING: Modules = {name: _tests_of(name) for name in _ACTING}


@dataclass(frozen=True)
class Group:
    """Modules that are judged together."""

    name: str
    modules: Modules
    goal: float
    """Share of their changes that may survive at most."""


GROUPS = (Group("pure", PURE, 0.03), Group("acting", ACTING, 0.05))
