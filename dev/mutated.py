"""The modules that `make mutants` changes, each with the tests that stand beside it.

The tests of whole deployments would notice more, minutes later: what a module does is to be seen
here. Patterns of files below `tests`; what is marked as in need of Spark is left out of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Modules = Mapping[str, tuple[str, ...]]

# What decides, and what it decides on. `tests/test_public_api.py` refuses Dagster, Spark, clocks
# and I/O in these modules.
PURE: Modules = {
    "durations.py": ("test_durations*.py",),
    "names.py": ("watch/test_alert_sensor.py", "watch/test_fleet_events.py"),
    "typed_json.py": ("observe/test_status*.py", "clusters/host/test_folders*.py"),
    "autoscale/lag.py": ("autoscale/test_lag*.py", "autoscale/test_reasons*.py"),
    "autoscale/ratio.py": (
        "autoscale/test_beside_limits*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_ratio*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_warm_up*.py",
    ),
    "autoscale/spark_conf.py": ("declare/test_policies*.py",),
    "autoscale/steps.py": (
        "autoscale/test_ratio*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_beside_limits*.py",
    ),
    "autoscale/throttle.py": ("autoscale/test_beside_limits*.py",),
    "backpressure/advice.py": ("backpressure/test_recommend*.py",),
    "backpressure/aims.py": ("backpressure/test_aims.py",),
    "backpressure/knobs.py": ("backpressure/test_knobs.py",),
    "backpressure/recommend.py": ("backpressure/test_recommend*.py",),
    "backpressure/recommend_options.py": ("backpressure/test_recommend*.py",),
    "backpressure/recommend_rates.py": ("backpressure/test_recommend*.py",),
    "backpressure/sustained.py": (
        "backpressure/test_sustained.py",
        "backpressure/test_recommend*.py",
    ),
    "backpressure/verify.py": ("backpressure/test_verify.py",),
    "cli/tail.py": ("cli/test_tail*.py",),
    "cli/words.py": ("cli/test_words*.py",),
    "clusters/conditions.py": ("cli/test_doctor.py",),
    "clusters/driver_options.py": (
        "clusters/test_driver_options*.py",
        "clusters/host/test_drivers*.py",
    ),
    "clusters/fate.py": ("clusters/test_fate*.py", "clusters/host/test_drivers*.py"),
    "clusters/limits.py": ("clusters/test_limits*.py",),
    "clusters/overtaking.py": ("clusters/test_overtaking.py",),
    "clusters/receiver_counts.py": ("clusters/test_receiver_counts.py",),
    "clusters/spark_settings.py": ("clusters/test_spark_settings*.py",),
    "clusters/tuned.py": ("clusters/test_tuned.py",),
    "clusters/host/environments.py": ("clusters/host/test_environments*.py",),
    "clusters/kubernetes/applications.py": ("clusters/kubernetes/test_applications*.py",),
    "clusters/kubernetes/checkpoints.py": ("clusters/kubernetes/test_checkpoints*.py",),
    "clusters/kubernetes/manifests.py": ("clusters/kubernetes/test_manifests*.py",),
    "clusters/kubernetes/names.py": ("clusters/kubernetes/test_names*.py",),
    "clusters/kubernetes/room.py": ("clusters/kubernetes/test_room*.py",),
    "clusters/kubernetes/spark.py": ("clusters/kubernetes/test_spark_in_a_pod*.py",),
    "clusters/kubernetes/telling.py": ("clusters/kubernetes/test_telling*.py",),
    "clusters/kubernetes/templates.py": ("clusters/kubernetes/test_templates*.py",),
    "clusters/standalone/room.py": ("clusters/test_room*.py",),
    "clusters/standalone/submission.py": ("clusters/test_submission*.py",),
    "clusters/standalone/told.py": ("clusters/test_told*.py",),
    "clusters/yarn/applications.py": ("clusters/yarn/test_applications*.py",),
    "clusters/yarn/submission.py": ("clusters/yarn/test_submission*.py",),
    "declare/backpressure.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_drift*.py",
    ),
    "declare/bounds.py": ("declare/test_stream_bounds*.py", "autoscale/test_shards*.py"),
    "declare/checkpoints.py": ("declare/test_checkpoints*.py",),
    "declare/decisions.py": ("autoscale/test_ratio*.py", "watch/test_assess*.py"),
    "declare/declaration.py": ("declare/test_streams*.py",),
    "declare/decorator.py": ("declare/test_streams*.py",),
    "declare/drift.py": ("declare/test_drift*.py",),
    "declare/faults.py": ("declare/test_wrong_values*.py", "declare/test_streams*.py"),
    "declare/fields.py": ("declare/test_wrong_values*.py", "declare/test_streams*.py"),
    "declare/key_groups.py": ("declare/test_key_groups*.py", "declare/test_state*.py"),
    "declare/limit_checks.py": ("declare/test_limits*.py", "declare/test_backpressure*.py"),
    "declare/limits.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_wrong_values*.py",
    ),
    "declare/policies.py": ("declare/test_policies*.py",),
    "declare/receivers.py": ("declare/test_receivers.py",),
    "declare/reserved.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_streams*.py",
    ),
    "declare/state.py": ("declare/test_state*.py",),
    "declare/stream.py": ("declare/test_*.py",),
    "declare/streams.py": ("declare/test_*.py",),
    "declare/waves.py": ("declare/test_waves*.py",),
    "driver/evacuation.py": ("driver/test_evacuation*.py",),
    "driver/kafka_lag.py": ("driver/test_kafka_lag*.py",),
    "driver/last_words.py": ("observe/test_last_words*.py",),
    "driver/progress.py": (
        "driver/test_progress*.py",
        "driver/test_queries*.py",
        "driver/test_reports*.py",
    ),
    "driver/receiver_rates.py": ("driver/test_receiver_amounts*.py",),
    "driver/receiver_watch.py": ("driver/test_receiver_watch*.py",),
    "driver/reports.py": ("driver/test_reports*.py",),
    "driver/shipped.py": ("driver/test_shipped*.py",),
    "driver/stopped.py": ("driver/test_stopped*.py",),
    "driver/victims.py": ("driver/test_victims*.py",),
    "driver/backpressure/cost_model.py": (
        "driver/backpressure/test_cost_model*.py",
        "driver/backpressure/test_work*.py",
    ),
    "driver/backpressure/estimators.py": ("driver/backpressure/test_estimators*.py",),
    "driver/backpressure/pid.py": ("driver/backpressure/test_pid.py",),
    "driver/backpressure/plan.py": ("driver/backpressure/test_plan*.py",),
    "driver/backpressure/seen.py": ("driver/backpressure/test_estimators*.py",),
    "driver/backpressure/sharing.py": ("driver/backpressure/test_sharing*.py",),
    "driver/backpressure/source.py": ("driver/backpressure/test_limiter*.py",),
    "driver/backpressure/timeline.py": ("driver/backpressure/test_timeline*.py",),
    "driver/backpressure/work.py": ("driver/backpressure/test_work*.py",),
    "driver/state/compare.py": ("driver/state/test_compare.py",),
    "driver/state/layout.py": ("driver/state/test_*.py",),
    "driver/state/plans.py": ("driver/state/test_plans.py",),
    "lifecycle/recovery.py": ("lifecycle/test_recovery*.py",),
    "observe/evaluation.py": (
        "observe/test_evaluation*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_warm_up*.py",
    ),
    "observe/hidden.py": ("observe/test_hidden*.py",),
    "observe/last_words.py": ("observe/test_last_words*.py", "observe/test_raised*.py"),
    "observe/minutes.py": ("observe/test_minutes*.py",),
    "observe/receivers.py": ("observe/test_receivers.py",),
    "observe/state.py": ("observe/test_state.py",),
    "observe/status.py": ("observe/test_status*.py",),
    "observe/stopped.py": ("observe/test_stopped*.py",),
    "observe/throttling.py": ("observe/test_evaluation*.py", "autoscale/test_beside_limits*.py"),
    "receivers/balance.py": ("receivers/test_balance.py",),
    "receivers/count.py": ("receivers/test_count.py",),
    "receivers/decide.py": ("receivers/test_decide.py",),
    "sources/kinesis/page_sizes.py": ("sources/kinesis/test_page_sizes*.py",),
    "sources/kinesis/positions.py": ("sources/kinesis/test_positions*.py",),
    "sources/kinesis/shards.py": ("sources/kinesis/test_shards*.py",),
    "sources/kinesis/span.py": ("sources/kinesis/test_span*.py",),
    "sources/kinesis/dstream/commits.py": ("sources/kinesis/test_commits*.py",),
    "state/aims.py": ("state/test_aims*.py",),
    "state/cost.py": ("state/test_cost*.py",),
    "watch/alerts.py": ("watch/test_alerts.py",),
    "watch/assess.py": ("watch/test_assess*.py", "watch/test_own_policy*.py"),
    "watch/backpressure.py": ("watch/test_backpressure.py",),
    "watch/coverage.py": ("watch/test_coverage*.py",),
    "watch/fleet.py": ("watch/test_fleet.py",),
    "watch/fleet_memory.py": ("watch/test_fleet_events.py",),
    "watch/fleet_words.py": ("watch/test_fleet_words.py",),
    "watch/glance.py": ("watch/test_glance*.py",),
    "watch/health.py": ("watch/test_health*.py",),
    "watch/kafka.py": ("watch/test_kafka.py",),
    "watch/memory.py": ("watch/test_memory*.py",),
    "watch/occasions.py": ("watch/test_occasions*.py",),
    "watch/picture.py": ("watch/test_picture*.py",),
    "watch/problems.py": ("watch/test_problems.py",),
    "watch/receivers.py": ("watch/test_receivers.py",),
    "watch/sighting.py": (
        "watch/test_assess*.py",
        "watch/test_collect*.py",
        "watch/test_missed.py",
    ),
    "watch/state.py": ("watch/test_state.py",),
    "watch/words.py": ("watch/test_words.py", "watch/test_glance*.py"),
}

# What acts, where the order of two steps decides what a kill between them leaves behind, and what
# locks and clocks are part of. Its tests play what it acts on in memory, or on this disk.
ACTING: Modules = {
    "backpressure/set_limits.py": ("backpressure/test_set_limits.py",),
    "clusters/kubernetes/launch.py": (
        "clusters/kubernetes/test_starts_cut_off.py",
        "clusters/kubernetes/test_launch.py",
        "clusters/kubernetes/test_drivers.py",
    ),
    "clusters/kubernetes/store.py": ("clusters/kubernetes/test_store.py",),
    "clusters/kubernetes/glance.py": ("clusters/kubernetes/test_glance.py",),
    "clusters/kubernetes/drivers.py": (
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_driver_pods*.py",
    ),
    "clusters/kubernetes/cluster.py": (
        "clusters/kubernetes/test_cluster*.py",
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_glance.py",
    ),
    "driver/history.py": ("driver/test_history*.py",),
    "driver/operation_order.py": ("driver/test_operation_order*.py",),
    "driver/backpressure/limiter.py": ("driver/backpressure/test_limiter*.py",),
    "driver/state/hook.py": ("driver/state/test_*.py",),
    "driver/state/journal.py": ("driver/state/test_*.py",),
    "driver/state/logs.py": ("driver/state/test_*.py",),
    "driver/state/reconfigure.py": ("driver/state/test_*.py",),
    "driver/state/reporting.py": ("driver/state/test_*.py",),
    "driver/state/tasks.py": ("driver/state/test_*.py",),
    "driver/state/undo.py": ("driver/state/test_*.py",),
    "lifecycle/assets.py": (
        "lifecycle/test_*.py",
        "test_definitions.py",
        "test_refused_declarations.py",
    ),
    "lifecycle/jobs.py": ("lifecycle/test_*.py", "watch/test_runs.py"),
    "lifecycle/reconcile.py": ("lifecycle/test_*.py",),
    "lifecycle/remedies.py": ("lifecycle/test_*.py", "watch/test_orphans.py"),
    "sources/kinesis/quota.py": ("sources/kinesis/test_quota*.py",),
    "receivers/looking.py": ("receivers/test_*.py",),
    "receivers/rebalance.py": ("receivers/test_rebalance*.py",),
    "receivers/recount.py": ("receivers/test_recount*.py",),
    "receivers/recount_following.py": ("receivers/test_recount*.py",),
    "receivers/recount_restart.py": ("receivers/test_recount*.py",),
    "backpressure/applying.py": (
        "backpressure/test_applying.py",
        "backpressure/test_putting_back.py",
        "backpressure/test_retune*.py",
    ),
    "watch/alert_sensor.py": ("watch/test_alert_sensor.py",),
    "cli/logs.py": ("cli/test_logs.py",),
}


@dataclass(frozen=True)
class Group:
    """Modules that are judged together."""

    name: str
    modules: Modules
    goal: float
    """Share of their changes that may survive at most."""


GROUPS = (Group("pure", PURE, 0.03), Group("acting", ACTING, 0.05))
