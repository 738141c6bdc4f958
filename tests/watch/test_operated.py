"""What people did stands on a stream's page, and in the list of runs."""

import time

import dagster as dg
import pytest

from dagster_sparkscale.names import (
    BY_TAG,
    CLUSTER_TAG,
    OPERATION_TAG,
    OUTCOME_TAG,
    READING_TAG,
    STREAM_TAG,
)
from dagster_sparkscale.operation import IN_SHORT, in_short
from dagster_sparkscale.watch.page import operated
from dagster_sparkscale.watch.page.operated import NEWS, RecentOperations, ended, news_of
from dagster_sparkscale.watch.page.timeline import timeline
from tests.fakes import scaled
from tests.watch.deployment import Deployment


@pytest.fixture
def deployed() -> Deployment:
    deployed = Deployment([scaled("clicks", max_executors=10)])
    job = deployed.defs.resolve_implicit_global_asset_job_def()
    asset = dg.AssetKey("clicks")
    assert job.execute_in_process(instance=deployed.instance, asset_selection=[asset]).success
    deployed.tick()
    return deployed


def shown(deployed: Deployment) -> str:
    deployed.tick()
    latest = deployed.instance.get_latest_materialization_event(dg.AssetKey("clicks"))
    assert latest is not None and latest.asset_materialization is not None
    return str(latest.asset_materialization.metadata["what happened"].value)


def runs(deployed: Deployment) -> list[dg.DagsterRun]:
    return list(deployed.instance.get_runs())


def test_a_rescale_by_hand_is_on_the_page_with_its_reason_and_in_the_list_of_runs(deployed):
    deployed.by_hand("rescale", stream="clicks", target=3, reason="keep small tonight")
    (run,) = [each for each in runs(deployed) if each.job_name == "rescale"]
    assert run.tags[OUTCOME_TAG].startswith("1 \u2192 3 executors in ")
    text = shown(deployed)
    assert "|by hand: rescale: 1 \u2192 3 executors in " in text
    assert "\\(keep small tonight\\)" in text or "(keep small tonight)" in text
    assert f"](/runs/{run.run_id})|" in text


def test_what_was_refused_is_there_too_and_says_why(deployed):
    assert not deployed.by_hand("rescale", stream="clicks", target=99).success
    (run,) = [each for each in runs(deployed) if each.job_name == "rescale"]
    assert "99" in run.tags[OUTCOME_TAG]
    assert "|by hand: rescale: failed: " in shown(deployed)


def test_a_restart_leaves_room_for_why(deployed):
    deployed.by_hand("restart", stream="clicks", reason="an upgrade of the broker")
    text = shown(deployed)
    assert "|by hand: restart: restarted driver 2 " in text and "upgrade of the broker" in text
    assert "memory process" not in text


def test_a_start_is_there_and_a_stop(deployed):
    assert "start: started driver 1" in shown(deployed)
    deployed.by_hand("stop", stream="clicks", reason="cleanup")
    text = shown(deployed)
    assert "|by hand: stop: " in text
    assert "cleanup" in text


def test_what_was_to_change_nothing_has_not_happened(deployed):
    assert deployed.by_hand("set_limits", stream="clicks").success
    (run,) = [each for each in runs(deployed) if each.job_name == "set_limits"]
    assert run.tags[READING_TAG] == "true"
    assert OUTCOME_TAG in run.tags, "in the list of runs it is"
    assert "set_limits" not in shown(deployed)
    assert [each.operation for each in ended(deployed.instance, "spark_cluster", 0.0)] == ["start"]


def test_a_run_that_repeats_a_reading_with_a_change_has_happened(deployed):
    job = deployed.defs.resolve_job_def("rescale")
    job.execute_in_process(
        run_config={"ops": {"rescale": {"config": {"stream": "clicks", "target": 2}}}},
        tags={READING_TAG: "true", OUTCOME_TAG: "clicks: no limit"},
        instance=deployed.instance,
    )
    assert "|by hand: rescale: " in shown(deployed)


def test_each_is_read_once_and_no_more_than_is_shown(deployed):
    recent = RecentOperations("spark_cluster")
    for number in range(12):
        deployed.by_hand("rescale", stream="clicks", target=1 + number % 2)
    now = time.time()
    recent.read_on(deployed.instance, now)
    recent.read_on(deployed.instance, now)
    assert len(recent.of("clicks")) == 10
    assert recent.of("orders") == ()
    assert RecentOperations("other").of("clicks") == ()
    assert ended(deployed.instance, "other", 0.0) == []


def test_who_asked_in_a_terminal_is_named(deployed):
    job = deployed.defs.resolve_job_def("rescale")
    job.execute_in_process(
        run_config={"ops": {"rescale": {"config": {"stream": "clicks", "target": 2}}}},
        tags={BY_TAG: "ana"},
        instance=deployed.instance,
    )
    assert "|ana: rescale: " in shown(deployed)


def test_what_the_autoscaler_did_is_no_news_by_itself(deployed):
    assert news_of([]) == ""
    found = ended(deployed.instance, "spark_cluster", 0.0)
    assert news_of(found).startswith("by hand: start: started driver 1")


def over(instance, number, **tags):
    """A run of a rescale that is over."""
    plain = {
        STREAM_TAG: "clicks",
        CLUSTER_TAG: "spark_cluster",
        OPERATION_TAG: "rescale",
        OUTCOME_TAG: "1 \u2192 3",
    }
    instance.add_run(
        dg.DagsterRun(
            job_name="rescale",
            run_id=f"{number:08d}-0000-0000-0000-000000000000",
            status=dg.DagsterRunStatus.SUCCESS,
            tags={**plain, **{name.replace("__", "/"): text for name, text in tags.items()}},
            run_config={"ops": {"rescale": {"config": {"reason": "x" * 5000}}}},
        )
    )


@pytest.mark.parametrize(
    ("tags", "by", "decided"),
    [
        ({"dagster__run_key": "clicks:1:5", "dagster__sensor_name": "autoscaler"}, None, True),
        ({"dagster__run_key": "mine", "dagster__sensor_name": "nightly"}, "sensor nightly", False),
        ({"dagster__sensor_name": "default_automation"}, "sensor default_automation", False),
        ({"dagster__schedule_name": "evening", "dagster__run_key": ""}, "schedule evening", False),
        (
            {
                "dagster__run_key": "clicks:1:5",
                "dagster__sensor_name": "autoscaler",
                "dagster__parent_run_id": "0",
            },
            "by hand",
            False,
        ),
        (
            {
                "dagster__run_key": "clicks:1:5",
                "dagster__sensor_name": "autoscaler",
                "dagster__parent_run_id": "0",
                "dagster__retry_number": "1",
            },
            None,
            True,
        ),
    ],
)
def test_only_the_autoscalers_own_runs_are_its_decisions(tags, by, decided):
    with dg.DagsterInstance.ephemeral() as instance:
        over(instance, 1, **tags)
        (found,) = ended(instance, "spark_cluster", 0.0)
    assert bool(found.run_key) is decided
    assert [each.who for each in timeline([], [found])] == ([] if decided else [by])


def test_news_is_short_and_what_is_done_twice_is_news_twice():
    with dg.DagsterInstance.ephemeral() as instance:
        over(instance, 1)
        once = news_of(ended(instance, "spark_cluster", 0.0))
        over(instance, 2)
        assert once != news_of(ended(instance, "spark_cluster", 0.0))
    assert once.startswith("by hand: rescale: 1 \u2192 3 (x") and once.endswith("(run 00000001)")
    assert len(once) < NEWS + 20


def test_what_was_done_to_one_stream_is_found_behind_all_that_was_done_to_others(monkeypatch):
    monkeypatch.setattr(operated, "MOST", 3)
    with dg.DagsterInstance.ephemeral() as instance:
        over(instance, 1)
        for number in range(2, 6):
            over(instance, number, **{STREAM_TAG: "orders"})
        assert len(ended(instance, "spark_cluster", 0.0)) == 3
        assert [each.stream for each in ended(instance, "spark_cluster", 0.0, "clicks")] == [
            "clicks"
        ]


def test_an_outcome_is_short_and_has_an_arrow_that_does_not_break():
    assert in_short("1 -> 4: reached") == "1 \u2192 4: reached"
    assert len(in_short("x" * 200)) == IN_SHORT
