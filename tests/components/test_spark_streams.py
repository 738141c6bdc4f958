"""Streams declared in a `defs.yaml` are those declared in Python; errors name file and line."""

import inspect
import re
from typing import Any

import dagster as dg
import pytest
import yaml

import dagster_sparkscale as ours
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.fields import mebibytes
from dagster_sparkscale.names import DEFAULT_CLUSTER_KEY
from tests.components.documents import (
    CLUSTER,
    STREAM,
    document,
    errors,
    loaded,
    streams_of,
)


def test_a_document_makes_what_build_defs_makes() -> None:
    stream = ours.StructuredStream(name="clicks", program="jobs/clicks.py", batch_interval="10s")
    same = ours.build_defs([stream], ours.LocalCluster())
    with loaded(document(CLUSTER + STREAM)) as (_, defs):
        assert names(defs) == names(same)
        assert defs.resources is not None
        assert isinstance(defs.resources[DEFAULT_CLUSTER_KEY], ours.LocalCluster)
        dg.Definitions.validate_loadable(defs)


def names(defs: dg.Definitions) -> list[set[str]]:
    repository = defs.get_repository_def()
    return [
        {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()},
        {key.to_user_string() for key in repository.asset_graph.asset_check_keys},
        {job.name for job in repository.get_all_jobs()},
        {sensor.name for sensor in repository.sensor_defs},
        {schedule.name for schedule in repository.schedule_defs},
    ]


EVERYTHING = """
cluster:
  type: LocalCluster
  workers: 6
  spark_conf: {spark.eventLog.enabled: "false"}
cluster_key: main
autoscaler_running: false
run_tags: {team: clicks}
budget: {cores: 40, groups: {web: 30}}
shards: 3
backtest:
  cron: "0 5 * * *"
  timezone: Europe/Berlin
  days: 3
  most_late: 2.5
  policies: [capacity, "capacity:price_of_lateness=400"]
streams:
  - type: StructuredStream
    name: clicks
    program: jobs/clicks.py
    arguments: ["--partitions", "8", "--secret", "[1]"]
    env: {TOKEN: "0123"}
    batch_interval: 10s
    executor_cores: 2
    executor_memory: 2g
    driver_memory: 512m
    spark_conf: {spark.sql.ansi.enabled: true, spark.locality.wait: 3}
    checkpoint_location: /data/checkpoints/clicks
    tasks_per_shard: 2
    priority: 3
    report_every: 5 min
    autoscale:
      type: RatioPolicy
      min_executors: 1
      max_executors: 8
      ceiling: 9
      initial_executors: 2
      interval: 30s
      max_lag: 5 min
      scale_down_window: 30 min
      min_gain: 0.1
      retry_after: 2h
      hand_pin: 0
      scale_up_ratio: 0.8
      scale_down_ratio: 0.4
    recovery: {first_delay: 5s, longest_delay: 1 min, limit: 3, within: 30 min}
    state: {key_groups: 128, partitions: 16, maintenance: "0 3 * * SUN", timezone: Europe/Berlin}
    backpressure: {target_ratio: 0.8, sources: [clicks]}
    limits:
      clicks: {max_offsets_per_trigger: 1000}
      files: {options: {maxFilesPerTrigger: 10}}
    realtime: {slots: 2, wait: 1 min}
    lineage:
      url: http://marquez:5000
      endpoint: lineage
      namespace: prod
      every: 5 min
      api_key_env: LINEAGE_KEY
      inputs: [["kafka://broker:9092", clicks]]
      outputs: [["postgres://db:5432", shop.public.clicks]]
    retune: {schedule: "0 4 * * *", apply: true}
    calendar:
      timezone: Europe/Berlin
      windows:
        - {cron: "0 7 * * MON-FRI", duration: 11h, bounds: [4, 9], reason: office hours}
        - {cron: "0 22 28 * *", duration: 6h, freeze: true}
    description: Clicks.
    key_prefix: [shop]
    deps: [raw_clicks]
    group: web
    owners: ["team:streaming"]
    tags: {tier: gold}
    kinds: [kafka]
    automation_condition: "{{ eager }}"
    metadata: {runbook: 7}
  - type: StructuredStream
    name: visits
    program: jobs/visits.py
    batch_interval: 10s
    autoscale: {type: CapacityPolicy, max_executors: 8, price_of_lateness: 400}
  - type: DStream
    name: orders
    program: jobs/orders.py
    batch_interval: 1
    receivers: 2
    executors: 4
    recovery: null
    checkpoint_location: /data/checkpoints/orders
    spark_conf: {spark.streaming.receiver.writeAheadLog.enable: true}
    receiver_policy:
      removal: fitting
      rebalance: false
      count: {maximum: 3, minimum: 1, drain: 1 min}
    limits: {max_rate: 1000}
"""

PYTHON = [
    lambda: ours.StructuredStream(
        name="clicks",
        program="jobs/clicks.py",
        arguments=("--partitions", "8", "--secret", "[1]"),
        env={"TOKEN": "0123"},
        batch_interval="10s",
        executor_cores=2,
        executor_memory="2g",
        driver_memory="512m",
        spark_conf={"spark.sql.ansi.enabled": True, "spark.locality.wait": 3},
        checkpoint_location="/data/checkpoints/clicks",
        tasks_per_shard=2,
        priority=3,
        report_every="5 min",
        autoscale=ours.RatioPolicy(
            min_executors=1,
            max_executors=8,
            ceiling=9,
            initial_executors=2,
            interval="30s",
            max_lag="5 min",
            scale_down_window="30 min",
            min_gain=0.1,
            retry_after="2h",
            hand_pin=0,
            scale_up_ratio=0.8,
            scale_down_ratio=0.4,
        ),
        recovery=ours.RecoveryPolicy(
            first_delay="5s", longest_delay="1 min", limit=3, within="30 min"
        ),
        state=ours.State(
            key_groups=128, partitions=16, maintenance="0 3 * * SUN", timezone="Europe/Berlin"
        ),
        backpressure=ours.BackpressurePolicy(target_ratio=0.8, sources=["clicks"]),
        limits={
            "clicks": ours.SourceLimits(max_offsets_per_trigger=1000),
            "files": ours.SourceLimits(options={"maxFilesPerTrigger": 10}),
        },
        realtime=ours.RealTime(slots=2, wait="1 min"),
        lineage=ours.Lineage(
            url="http://marquez:5000",
            endpoint="lineage",
            namespace="prod",
            every="5 min",
            api_key_env="LINEAGE_KEY",
            inputs=[("kafka://broker:9092", "clicks")],
            outputs=[("postgres://db:5432", "shop.public.clicks")],
        ),
        retune=ours.Retune(schedule="0 4 * * *", apply=True),
        calendar=ours.Calendar(
            timezone="Europe/Berlin",
            windows=[
                ours.Window(
                    cron="0 7 * * MON-FRI", duration="11h", bounds=(4, 9), reason="office hours"
                ),
                ours.Window(cron="0 22 28 * *", duration="6h", freeze=True),
            ],
        ),
        description="Clicks.",
        key_prefix=["shop"],
        deps=["raw_clicks"],
        group="web",
        owners=["team:streaming"],
        tags={"tier": "gold"},
        kinds={"kafka"},
        automation_condition=dg.AutomationCondition.eager(),
        metadata={"runbook": 7},
    ),
    lambda: ours.StructuredStream(
        name="visits",
        program="jobs/visits.py",
        batch_interval="10s",
        autoscale=ours.CapacityPolicy(max_executors=8, price_of_lateness=400),
    ),
    lambda: ours.DStream(
        name="orders",
        program="jobs/orders.py",
        batch_interval=1,
        receivers=2,
        executors=4,
        recovery=None,
        checkpoint_location="/data/checkpoints/orders",
        spark_conf={"spark.streaming.receiver.writeAheadLog.enable": True},
        receiver_policy=ours.ReceiverPolicy(
            removal="fitting",
            rebalance=False,
            count=ours.ReceiverCount(maximum=3, minimum=1, drain="1 min"),
        ),
        limits=ours.StreamingLimits(max_rate=1000),
    ),
]
VARIABLES = """
import dagster as dg

@dg.template_var
def eager():
    return dg.AutomationCondition.eager()
"""


def test_all_that_can_be_declared_can_be_written_in_yaml() -> None:
    text = document(EVERYTHING, rest="template_vars_module: .variables\n")
    with loaded(text, variables=VARIABLES) as (component, defs):
        [component] = getattr(component, "components", [component])
        assert [*component.streams] == [declare() for declare in PYTHON]
        assert component.budget == ours.Budget(cores=40, groups={"web": 30})
        assert component.shards == 3
        assert component.backtest == ours.Backtest(
            cron="0 5 * * *",
            timezone="Europe/Berlin",
            days=3,
            most_late=2.5,
            policies=("capacity", "capacity:price_of_lateness=400"),
        )
        assert component.cluster.workers == 6
        repository = defs.get_repository_def()
        sensor = repository.get_sensor_def("autoscaler_main")
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
        assert defs.resolve_job_def("rescale_main").run_tags["team"] == "clicks"
        [schedule] = [each for each in repository.schedule_defs if "backtest" in each.name]
        assert schedule.cron_schedule == "0 5 * * *"


def test_that_test_leaves_no_field_out() -> None:
    """So that a new field is written there as well."""
    document = yaml.safe_load(EVERYTHING)
    of_streams: dict[str, set[str]] = {}
    for fields in document["streams"]:
        of_streams.setdefault(fields["type"], set()).update(fields)
    structured = set(ours.StructuredStream.model_fields)
    assert structured <= of_streams["StructuredStream"] | NOT_BOTH
    assert set(ours.DStream.model_fields) <= of_streams["DStream"] | structured - {"limits"}
    policies = [fields["autoscale"] for fields in document["streams"] if "autoscale" in fields]
    written = {policy["type"]: set(policy) for policy in policies}
    assert set(ours.RatioPolicy.model_fields) <= written["RatioPolicy"]
    more = set(ours.CapacityPolicy.model_fields) - set(ours.AutoscalePolicy.model_fields)
    assert more <= written["CapacityPolicy"]
    assert set(ours.Backtest.model_fields) == set(document["backtest"])
    assert set(inspect.signature(ours.build_defs).parameters) == set(document)


NOT_BOTH = {"executors", "kind"}
"""Not beside a policy; set by the class itself."""


def test_a_policy_and_a_cluster_of_your_own_are_named_by_their_import_path() -> None:
    text = document(
        """
        cluster: {type: tests.components.own.Machine}
        streams:
          - type: tests.components.own.Orders
            name: orders
            program: jobs/orders.py
            batch_interval: 10s
            autoscale: {type: tests.components.own.Steady, executors: 3, max_executors: 4}
        """
    )
    with loaded(text) as (component, _):
        [component] = getattr(component, "components", [component])
        [stream] = component.streams
        assert (type(stream).__name__, stream.kind) == ("Orders", "structured")
        assert (type(stream.autoscale).__name__, stream.autoscale.executors) == ("Steady", 3)
        assert type(component.cluster).__name__ == "Machine"


@pytest.mark.parametrize("base", [ClusterManager, ours.AutoscalePolicy])
def test_each_public_class_is_known_by_its_name(base: type) -> None:
    from dagster_sparkscale.components.declared import known

    assert set(known(base)) == {
        name
        for name in ours.__all__
        if isinstance(thing := getattr(ours, name), type)
        if issubclass(thing, base) and thing is not base
    }


def test_several_documents_of_a_file_are_several_clusters() -> None:
    other = document(CLUSTER + "\ncluster_key: other" + STREAM.replace("clicks", "visits"))
    with loaded(f"{document(CLUSTER + STREAM)}---\n{other}") as (_, defs):
        assert {DEFAULT_CLUSTER_KEY, "other"} <= set(defs.resources or {})
        assert {"clicks", "visits"} <= names(defs)[0]


def test_two_clusters_of_one_key_are_refused_by_it() -> None:
    other = document("cluster: {type: LocalCluster, workers: 3}" + STREAM.replace("clicks", "b"))
    said = errors(f"{document(CLUSTER + STREAM)}---\n{other}")
    assert any(DEFAULT_CLUSTER_KEY in each for each in said), said


def test_a_program_beside_the_document_is_named_relative_to_it() -> None:
    text = document(CLUSTER + STREAM.replace("jobs/clicks.py", "clicks.py"))
    with loaded(text, clicks="") as (component, _):
        [component] = getattr(component, "components", [component])
        [stream] = component.streams
        assert stream.program.endswith("/defs/ingest/clicks.py")
    assert streams_of(document(CLUSTER + STREAM))[0].program == "jobs/clicks.py"


@pytest.mark.parametrize("secret", ["0123", "1_000", "None", "[1]", "'x'", "1e5"])
def test_a_variable_is_the_text_that_it_is(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster's own templates would make a number of a password of digits."""
    monkeypatch.setenv("TOKEN", secret)
    text = document(
        CLUSTER + STREAM + '    env: {TOKEN: "{{ env.TOKEN }}", B: "x-{{ env.TOKEN }}"}'
    )
    assert streams_of(text)[0].env == {"TOKEN": secret, "B": f"x-{secret}"}


def test_a_number_may_come_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORES", "3")
    monkeypatch.setenv("MEMORY", "2g")
    more = '    executor_cores: "{{ env.CORES }}"\n    executor_memory: "{{ env.MEMORY }}"'
    [stream] = streams_of(document(CLUSTER + STREAM + more))
    assert (stream.executor_cores, mebibytes(stream.executor_memory)) == (3, 2048)


def test_a_secret_of_a_cluster_is_not_shown_by_dagster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hunter2")
    cluster = """
    cluster:
      type: LocalCluster
      spark_conf: {spark.hadoop.fs.s3a.secret.key: "{{ EnvVar('KEY') }}"}
    """
    text = document(cluster) + "\n" + document(STREAM).partition("attributes:\n")[2]
    with loaded(text) as (component, _):
        [component] = getattr(component, "components", [component])
        value: Any = component.cluster.spark_conf["spark.hadoop.fs.s3a.secret.key"]
        assert isinstance(value, dg.EnvVar)
        assert value.get_value() == "hunter2"
        assert "hunter2" not in repr(component)


def test_arguments_may_come_of_a_function() -> None:
    variables = """
    import dagster as dg

    @dg.template_var
    def topic_arguments():
        return lambda: ["--topic", "clicks"]

    @dg.template_var
    def policy():
        from dagster_sparkscale import RatioPolicy
        return RatioPolicy(max_executors=3)
    """
    more = '    arguments: "{{ topic_arguments }}"\n    autoscale: "{{ policy }}"'
    text = document(CLUSTER + STREAM + more, rest="template_vars_module: .variables\n")
    [stream] = streams_of(text, variables=variables)
    assert stream.program_arguments() == ("--topic", "clicks")
    assert stream.autoscale == ours.RatioPolicy(max_executors=3)


def test_what_streams_have_wrong_together_names_the_file() -> None:
    twice = STREAM + STREAM.replace("\nstreams:\n", "")
    said = next(each for each in errors(document(CLUSTER + twice)) if "Declaration" in each)
    assert re.search(r"/ingest\S*: name = 'clicks': 2 streams have it; each needs its own", said)
