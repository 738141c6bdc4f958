"""Spark settings of a driver that is a pod."""

from dataclasses import replace

from dagster_sparkscale.clusters.kubernetes.spark import app_id, host, settings_in_a_pod
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.store import Record
from tests.clusters.running import stream

RECORD = replace(Record.new("ab" * 8), epoch=7, executors=2)


def made(common=None, spark_conf=None, more=None, template=None, **options):
    call = Invocation(stream("word_count", spark_conf=spark_conf or {}), "", (), more)
    placing = Placing("streams", "spark:4.3", "driver", 30, **options)
    return settings_in_a_pod(call, RECORD, placing, common or {}, template)


def test_executors_find_the_driver_by_its_service():
    found = made()
    assert found["spark.master"] == "k8s://https://kubernetes.default.svc"
    assert found["spark.driver.host"] == "sparkscale-word-count-7.streams.svc"
    assert found["spark.driver.bindAddress"] == "0.0.0.0"
    assert found["spark.kubernetes.executor.useDriverPodIP"] == "false"
    assert found["spark.driver.host"] == host("word_count", 7, "streams")


def test_executors_are_owned_and_named_after_their_driver():
    found = made()
    assert found["spark.kubernetes.driver.pod.name"] == "sparkscale-word-count-7"
    assert found["spark.kubernetes.executor.podNamePrefix"] == "sparkscale-word-count-7"
    assert found["spark.kubernetes.executor.label.dagster-sparkscale/epoch"] == "7"
    assert found["spark.app.id"] == "sparkscale-word-count-7-abababab"
    assert found["spark.executor.instances"] == "2"


def test_an_application_id_can_be_a_label():
    assert len(app_id("a" * 63, 10**9, "ab" * 8)) <= 63


def test_refusals_and_outages_do_not_end_the_driver():
    assert int(made()["spark.executor.maxNumFailures"]) >= 10**6


def test_the_users_settings_win():
    found = made(
        {"spark.executor.maxNumFailures": "7", "spark.ui.port": "1"},
        {"spark.executor.memoryOverheadFactor": "0.1", "spark.ui.port": "2"},
        pull_policy="Always",
    )
    assert found["spark.executor.maxNumFailures"] == "7"
    assert found["spark.executor.memoryOverheadFactor"] == "0.1"
    assert found["spark.ui.port"] == "2"
    assert found["spark.kubernetes.container.image.pullPolicy"] == "Always"
    own = made(spark_conf={"spark.kubernetes.container.image": "own"})
    assert own["spark.kubernetes.container.image"] == "own"


def test_what_is_set_for_one_start_wins_over_them():
    found = made({"spark.x": "cluster"}, {"spark.x": "stream"}, more={"spark.x": "once"})
    assert found["spark.x"] == "once"


def test_but_not_over_what_keeps_two_starts_apart():
    ours = made()
    for key in (
        "spark.kubernetes.driver.pod.name",
        "spark.kubernetes.namespace",
        "spark.driver.host",
        "spark.driver.port",
        "spark.app.id",
        "spark.kubernetes.executor.podNamePrefix",
        "spark.kubernetes.executor.label.dagster-sparkscale/stream",
    ):
        assert made({key: "other"}, {key: "another"})[key] == ours[key]


def test_where_pods_go_is_told_to_spark():
    found = made(
        node_selector={"pool": "spark"}, pull_secrets=["one", "two"], template="/x/pod.json"
    )
    assert found["spark.kubernetes.node.selector.pool"] == "spark"
    assert found["spark.kubernetes.container.image.pullSecrets"] == "one,two"
    assert found["spark.kubernetes.executor.podTemplateFile"] == "/x/pod.json"
    assert "spark.kubernetes.executor.podTemplateFile" not in made()
