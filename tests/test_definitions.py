import json

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.names import STORY, STREAMS
from tests.fakes import dstream, scaled, structured
from tests.in_memory.cluster import World
from tests.releases import PREFIX


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(reconcile_module, "_POLL", 0)


def refusal(streams, cluster, **how) -> str:
    with pytest.raises(DeclarationError) as refused:
        build_defs(streams, cluster, **how)
    return str(refused.value)


class TestValidation:
    @pytest.fixture
    def cluster(self, world):
        return world.cluster

    def test_no_stream_at_all(self, cluster):
        assert refusal([], cluster).startswith("streams: empty; declare at least one")

    def test_a_stream_that_is_not_in_a_list(self, cluster):
        assert refusal(structured(), cluster) == (
            "streams: a single StructuredStream; must be a list of streams"
        )

    def test_something_that_is_no_stream_is_not_shown_for_it_may_hold_secrets(self, cluster):
        text = refusal([structured(), {"name": "a", "env": {"TOKEN": "hunter2"}}], cluster)
        assert text == "streams[1] is a dict; must be a StructuredStream or a DStream"

    def test_something_that_is_no_cluster(self):
        assert refusal([structured()], "local") == (
            "cluster = 'local': must be a cluster manager, such as LocalCluster() or "
            "StandaloneCluster(master=...)"
        )

    def test_a_name_twice(self, cluster):
        text = refusal([structured(), dstream(), structured("other")], cluster)
        assert text == "name = 'clicks': 2 streams have it; each needs its own"

    def test_the_name_of_the_asset_that_shows_all(self, cluster):
        assert refusal([structured("fleet")], cluster) == (
            "name = 'fleet': the asset that shows all streams has it; rename the stream"
        )
        build_defs([structured("fleet", key_prefix=("web",))], cluster)
        build_defs([structured("fleet")], cluster, cluster_key="west")

    def test_a_name_twice_under_different_prefixes(self, cluster):
        text = refusal([structured(), structured(key_prefix=("a",))], cluster)
        assert "name = 'clicks': 2 streams have it" in text

    @pytest.mark.parametrize("name", ["rescale", "restart", "stop", "stop_run"])
    def test_the_name_of_a_job(self, cluster, name):
        assert refusal([structured(name)], cluster) == (
            f"name = {name!r}: {name!r} is taken by a job; rename the stream"
        )

    def test_the_name_of_a_job_of_another_cluster_is_free(self, cluster):
        defs = build_defs([structured("stop")], cluster, cluster_key="west")
        dg.Definitions.validate_loadable(defs)

    def test_two_names_that_are_one_to_dagster(self, cluster):
        text = refusal([structured("a__b"), structured("b", key_prefix=("a",))], cluster)
        assert text == "name = 'b': 'a__b' is taken by stream 'a__b'; rename the stream"
        assert "'a_health' is taken" in refusal([structured("a_health"), structured("a")], cluster)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("/data/a", "/data/a"), ("/data/a/", "/data/a"), ("/data/x/../a", "/data//a")],
    )
    def test_a_checkpoint_twice(self, cluster, one, other):
        streams = [
            structured("a", checkpoint_location=one),
            structured("b", checkpoint_location=other),
        ]
        text = refusal(streams, cluster)
        assert text.startswith(f"checkpoint_location = {other!r}: streams 'a' and 'b' both have it")

    def test_checkpoints_that_differ_or_are_not_given(self, cluster):
        streams = [
            structured("a", checkpoint_location="/data/a"),
            structured("b", checkpoint_location="/data/b"),
            structured("c"),
            structured("d"),
        ]
        assert build_defs(streams, cluster)

    @pytest.mark.parametrize(
        "key", ["", "a b", "a-b", "1a", "class", "_x", "größe", "io_manager", "shard_2", 5, None]
    )
    def test_a_key_that_no_resource_can_have(self, cluster, key):
        assert refusal([structured()], cluster, cluster_key=key).startswith(
            f"cluster_key = {key!r}: "
        )

    def test_a_switch_that_is_none(self, cluster):
        text = refusal([structured()], cluster, autoscaler_running="no")
        assert text == "autoscaler_running = 'no': must be True or False"

    def test_tags_that_are_none(self, cluster):
        refused = refusal([structured()], cluster, run_tags=["team"])
        assert refused == 'run_tags = [\'team\']: must be a dict, such as {"team": "clicks"}'


class TestCodeLocation:
    STREAMS = (
        scaled("clicks", max_executors=4),
        dstream("orders", receivers=1, executor_cores=2),
        structured("plain", key_prefix=PREFIX),
    )

    def test_it_loads(self, world):
        defs = build_defs(self.STREAMS, world.cluster)
        dg.Definitions.validate_loadable(defs)
        repository = defs.get_repository_def()
        assert {job.name for job in repository.get_all_jobs()} >= {"rescale", "restart", "stop"}
        assert [sensor.name for sensor in defs.sensors] == ["autoscaler"]

    @pytest.mark.parametrize(
        ("running", "status"),
        [(True, dg.DefaultSensorStatus.RUNNING), (False, dg.DefaultSensorStatus.STOPPED)],
    )
    def test_the_autoscaler_runs_at_once_unless_told_otherwise(self, world, running, status):
        defs = build_defs(self.STREAMS, world.cluster, autoscaler_running=running)
        assert defs.resolve_sensor_def("autoscaler").default_status is status

    def test_a_run_from_the_launchpad_can_not_be_led_to_another_cluster(self, world):
        """It begins with the config of the operation alone."""
        job = build_defs([structured()], world.cluster).resolve_job_def("rescale")
        config = {"ops": {"rescale": {"config": {"stream": "clicks", "target": 3}}}}
        assert dg.validate_run_config(job, config)
        other = {"resources": {"spark_cluster": {"config": {"world": "another"}}}}
        with pytest.raises(dg.DagsterInvalidConfigError, match="resources"):
            dg.validate_run_config(job, config | other)

    def test_runs_of_its_jobs_have_the_tags_that_are_given(self, world):
        pod = {"container_config": {"resources": {"requests": {"cpu": "250m"}}}}
        given = build_defs([structured()], world.cluster, run_tags={"dagster-k8s/config": pod})
        jobs = [each for each in given.resolve_all_job_defs() if not each.name.startswith("__")]
        assert len(jobs) > 3
        for job in jobs:
            assert json.loads(job.tags["dagster-k8s/config"]) == pod
        bare = build_defs([structured()], world.cluster).resolve_job_def("rescale")
        assert bare.tags == {"dagster/max_retries": "0"}

    def test_two_clusters_share_a_code_location(self, world):
        other = World()
        defs = dg.Definitions.merge(
            build_defs([structured("clicks")], world.cluster),
            build_defs([structured("orders")], other.cluster, cluster_key="west"),
        )
        dg.Definitions.validate_loadable(defs)
        jobs = {job.name for job in defs.get_repository_def().get_all_jobs()}
        assert jobs >= {"rescale", "rescale_west", "stop", "stop_west", "restart_west"}
        assert {sensor.name for sensor in defs.sensors} == {"autoscaler", "autoscaler_west"}
        result = defs.resolve_job_def("restart_west").execute_in_process(
            run_config={"ops": {"restart_west": {"config": {"stream": "orders"}}}},
            instance=dg.DagsterInstance.ephemeral(),
        )
        assert result.success
        assert set(other.streams) == {"orders"}
        assert world.streams == {}

    def test_streams_are_found_in_what_they_are_merged_into_and_do_not_leave_the_process(
        self, world
    ):
        declared = structured(env={"PASSWORD": "hunter2"})
        defs = dg.Definitions.merge(build_defs([declared], world.cluster), dg.Definitions())
        repository = defs.get_repository_def()
        held = repository.get_sensor_def("autoscaler").metadata[STREAMS]
        assert held.instance.by_name == {"clicks": declared}
        told = serialize_value(RepositorySnap.from_def(repository))
        assert STREAMS in told
        assert "hunter2" not in told

    def test_the_rest_of_a_code_location_is_merged_with_it(self, world):
        @dg.asset(deps=["clicks"])
        def hourly(): ...

        defs = dg.Definitions.merge(
            build_defs([structured()], world.cluster), dg.Definitions(assets=[hourly])
        )
        dg.Definitions.validate_loadable(defs)
        graph = defs.resolve_asset_graph()
        assert graph.get(dg.AssetKey("hourly")).parent_keys == {dg.AssetKey("clicks")}
        assert graph.get(dg.AssetKey("clicks")).child_keys == {dg.AssetKey("hourly")}


class TestAsset:
    def asset(self, world, **fields):
        defs = build_defs([structured(**fields)], world.cluster)
        dg.Definitions.validate_loadable(defs)
        (asset,) = (each for each in defs.assets if isinstance(each, dg.AssetsDefinition))
        (spec,) = asset.specs
        return spec

    def test_it_has_what_any_asset_has(self, world):
        condition = dg.AutomationCondition.eager()
        spec = self.asset(
            world,
            key_prefix=("raw", "web"),
            deps=("topic", dg.AssetKey(["a", "b"])),
            group="streaming",
            owners=("team:data", "me@example.com"),
            tags={"tier": "gold"},
            kinds=frozenset({"kafka"}),
            automation_condition=condition,
            description="Clicks per page.",
            metadata={"contact": "#data"},
        )
        assert spec.key == dg.AssetKey(["raw", "web", "clicks"])
        assert [dep.asset_key for dep in spec.deps] == [
            dg.AssetKey("topic"),
            dg.AssetKey(["a", "b"]),
        ]
        assert spec.group_name == "streaming"
        assert list(spec.owners) == ["team:data", "me@example.com"]
        assert spec.tags["tier"] == "gold"
        assert spec.kinds == {"spark", "streaming", "kafka"}
        assert spec.automation_condition == condition
        assert spec.description == "Clicks per page."
        assert spec.metadata["contact"] == "#data"

    def test_it_says_how_the_stream_runs(self, world):
        metadata = self.asset(
            world,
            executor_cores=2,
            spark_conf={"spark.cores.max": 8},
            autoscale=RatioPolicy(min_executors=2, max_executors=9),
            checkpoint_location="/data/clicks",
        ).metadata
        assert metadata["program"] == "jobs/clicks.py"
        assert metadata["batch_interval_seconds"] == 10.0
        assert metadata["executors_declared"].startswith(
            "2 to 4 (a maximum of 9 was declared, but 4 is"
        )
        assert metadata["checkpoint"] == "/data/clicks"
        assert metadata["autoscale"] == (
            "RatioPolicy: interval 1 min, hand_pin 1 h, scale_up_ratio 0.9, scale_down_ratio 0.3"
        )

    def test_it_says_by_what_its_policy_decides(self, world):
        class Mine(RatioPolicy):
            password: str = "hunter2"
            least: int = 3

        metadata = self.asset(world, autoscale=Mine.spark_12133(interval=15, max_lag=60)).metadata
        assert metadata["autoscale"] == (
            "Mine: interval 15 s, hand_pin 1 h, max_lag 1 min, scale_up_ratio 0.9, "
            "scale_down_ratio 0.5, least 3"
        )
        assert "autoscale" not in self.asset(world, executors=2).metadata

    def test_it_says_what_is_declared_of_limits(self, world):
        limits = {"clicks": SourceLimits(max_offsets_per_trigger=2000)}
        policy = BackpressurePolicy(max_rate=1_000_000)
        metadata = self.asset(world, limits=limits, backpressure=policy).metadata
        assert metadata["limits_declared"] == "clicks.maxOffsetsPerTrigger 2000"
        assert metadata["backpressure"] == "work: 100 to 1,000,000 records/s"
        metadata = self.asset(world, backpressure=BackpressurePolicy(min_rate=5)).metadata
        assert metadata["backpressure"] == "work: 5 or more records/s"
        assert "limits_declared" not in metadata
        assert "backpressure" not in self.asset(world).metadata

    def test_its_environment_and_settings_are_not_in_it(self, world):
        spec = self.asset(
            world, env={"TOKEN": "hunter2"}, spark_conf={"spark.hadoop.key": "hunter2"}
        )
        assert "hunter2" not in repr(spec)

    def test_materializing_it_starts_the_stream(self, world):
        defs = build_defs([structured()], world.cluster)
        result = dg.materialize(
            [*defs.assets], resources=defs.resources, instance=dg.DagsterInstance.ephemeral()
        )
        assert result.success
        metadata = result.asset_materializations_for_node("clicks")[0].metadata
        assert metadata[STORY].value["action"] == "started"
        assert metadata[STORY].value["epoch"] == 1
        assert world.streams["clicks"].driver.epoch == 1

    def test_materializing_it_again_attaches(self, world):
        world.run(structured())
        defs = build_defs([structured()], world.cluster)
        result = dg.materialize(
            [*defs.assets], resources=defs.resources, instance=dg.DagsterInstance.ephemeral()
        )
        metadata = result.asset_materializations_for_node("clicks")[0].metadata
        assert metadata[STORY].value["action"] == "attached"
        assert world.streams["clicks"].driver.epoch == 1

    def test_a_restart_can_be_asked_for(self, world):
        world.run(structured())
        defs = build_defs([structured()], world.cluster)
        result = dg.materialize(
            [*defs.assets],
            resources=defs.resources,
            instance=dg.DagsterInstance.ephemeral(),
            run_config={"ops": {"clicks": {"config": {"restart": True, "reason": "new code"}}}},
        )
        metadata = result.asset_materializations_for_node("clicks")[0].metadata
        assert metadata[STORY].value["action"] == "restarted"
        assert metadata[STORY].value["reason"] == "new code"
        assert world.streams["clicks"].driver.epoch == 2

    def test_a_start_that_fails_says_why_without_a_stack_trace(self, world):
        def crash(kept):
            kept.log = ["ImportError: no module named orders"]
            world.end("clicks")

        world.on_submit = crash
        defs = build_defs([structured()], world.cluster)
        result = dg.materialize(
            [*defs.assets],
            resources=defs.resources,
            instance=dg.DagsterInstance.ephemeral(),
            raise_on_error=False,
        )
        (failure,) = (event for event in result.all_events if event.is_step_failure)
        text = failure.event_specific_data.user_failure_data.description
        assert text.endswith("ImportError: no module named orders")
        assert result.asset_materializations_for_node("clicks") == []
