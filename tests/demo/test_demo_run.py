"""What the demo does before it starts anything."""

import contextlib
import json
import os
import signal
from pathlib import Path

import dagster as dg
import psutil
import pytest

from demo import play, run
from demo.follow import Follower
from demo.report import Run
from dev import browser, kinesis

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def notes(state: Path, pid: int, born: float) -> None:
    state.mkdir()
    (state / "processes.json").write_text(json.dumps({"demo": [pid, born]}))


def test_the_state_of_an_earlier_demo_is_cleared_away(tmp_path):
    state = tmp_path / "state"
    notes(state, os.getpid(), born=1.0)  # its number belongs to another process now
    play.clear_away_earlier(state)
    assert not state.exists()


def test_a_second_demo_is_refused_and_told_which_one_runs(tmp_path):
    state = tmp_path / "state"
    notes(state, os.getpid(), psutil.Process().create_time())
    with pytest.raises(play.DemoFailed, match=f"process {os.getpid()}"):
        play.clear_away_earlier(state)
    assert state.exists()


def test_a_folder_that_is_none_of_a_demo_is_never_deleted(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(play.DemoFailed, match="not from a demo"):
        play.clear_away_earlier(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_without_a_state_there_is_nothing_to_clear_away(tmp_path):
    play.clear_away_earlier(tmp_path / "none")


def test_what_the_demo_starts_has_no_credentials_but_made_up_ones():
    environ = {
        "AWS_PROFILE": "production",
        "AWS_ACCESS_KEY_ID": "AKIAREAL",
        "AWS_SECRET_ACCESS_KEY": "real",
        "AWS_SESSION_TOKEN": "real",
        "NO_PROXY": "intranet",
        "PATH": "/bin",
    }
    kinesis.stay_away_from_aws(environ)
    assert environ == {
        "AWS_ACCESS_KEY_ID": "emulator",
        "AWS_SECRET_ACCESS_KEY": "emulator",
        "AWS_DEFAULT_REGION": "us-east-1",
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "intranet,127.0.0.1",
        "PATH": "/bin",
    }


@pytest.fixture
def demo(tmp_path):
    made = play.Demo(tmp_path / "state", headless=False, deadline=1, patience=1, port=0)
    made.url, made._started = "http://127.0.0.1:1", ["ours"]
    return made


def ended(run_id: str, status: str, job: str = "start") -> Run:
    return Run(run_id, job, "clicks", status, time=1.0, seconds=1.0)


@pytest.mark.parametrize("job", ["start", "rescale", "stop"])
def test_what_somebody_tries_in_the_ui_may_fail(demo, job):
    starting = ["clicks"]
    demo._check_run(ended("theirs", "FAILURE", job), starting)
    demo._check_run(ended("theirs, too", "SUCCESS", job), starting)
    assert starting == ["clicks"]


def test_a_stream_of_the_demo_that_does_not_start_ends_it(demo):
    with pytest.raises(play.DemoFailed, match=r"^clicks did not start; see .*/runs/ours$"):
        demo._check_run(ended("ours", "FAILURE"), ["clicks"])


def test_one_that_has_started_is_not_waited_for_any_more(demo):
    starting = ["clicks"]
    demo._check_run(ended("ours", "SUCCESS"), starting)
    assert starting == []


def test_a_run_by_hand_that_failed_before_it_was_tagged_is_told_by_its_job():
    with dg.DagsterInstance.ephemeral() as instance:
        for name, selection in (("rescale", None), ("__ASSET_JOB", {dg.AssetKey("clicks")})):
            failed = dg.DagsterRun(
                job_name=name, asset_selection=selection, status=dg.DagsterRunStatus.FAILURE
            )
            instance.add_run(failed)
        news = list(Follower(instance, ["clicks"]).news())
    assert [each.job for each in news] == ["rescale", "start"]


@pytest.mark.parametrize(
    ("folder", "found", "why"),
    [("none", True, "none: there is no such folder"), (".", False, "Chromium or Chrome is needed")],
)
def test_pictures_that_cannot_be_taken_are_told_of_before_anything_starts(
    tmp_path, monkeypatch, capsys, folder, found, why
):
    chromium = browser.Browser("chromium") if found else None
    monkeypatch.setattr(browser, "browser", lambda: chromium)
    state, report = tmp_path / "state", tmp_path / "report.json"
    places = ["--state", str(state), "--report", str(report)]
    kept = [signal.getsignal(number) for number in SIGNALS]
    try:
        assert run.main(["--pictures", str(tmp_path / folder), *places]) == 1
    finally:
        for number, handler in zip(SIGNALS, kept, strict=True):
            signal.signal(number, handler)
    assert why in capsys.readouterr().out
    assert not state.exists()


def test_an_interrupt_that_was_swallowed_ends_the_demo_at_its_next_step(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_interrupts", [])
    places = {"headless": False, "deadline": 1, "patience": 1, "port": 0}
    demo = play.Demo(tmp_path / "state", **places, go_on=run._raise_what_was_swallowed)
    demo._check_children()
    with contextlib.suppress(run.Interrupted):  # as native code does
        run._interrupt(signal.SIGINT, None)
    with pytest.raises(run.Interrupted):
        demo._check_children()


def test_an_interrupt_of_which_native_code_made_a_failure_is_one_all_the_same(
    tmp_path, monkeypatch, capsys
):
    class Demo(play.Demo):
        def play(self):
            with contextlib.suppress(run.Interrupted):
                run._interrupt(signal.SIGINT, None)
            raise ValueError("Interrupted: SIGINT")

    monkeypatch.setattr(run, "Demo", Demo)
    places = ["--state", str(tmp_path / "state"), "--report", str(tmp_path / "report.json")]
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        assert run.main(places) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "SIGINT: ending everything" in capsys.readouterr().out
