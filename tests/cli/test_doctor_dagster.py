"""`doctor`: what is wrong with Dagster as it runs here, and what to do about it."""

import os
import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from dagster._daemon.daemon import SensorDaemon

from dagster_sparkscale.cli.dagster_side import home, sensor_threads
from tests.cli.daemon import beat
from tests.cli.terminal import Terminal, lines


def test_no_home(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    done = terminal.ask("doctor")
    assert done.exit_code == 1
    (line,) = lines(done, "WRONG")
    assert line.startswith("DAGSTER_HOME: not set")
    assert "-> `export DAGSTER_HOME=/a/folder`" in done.stdout
    assert "clicks: answers" in done.stdout  # and all the same goes on


@pytest.mark.parametrize(
    ("home", "text"),
    [("relative", "is relative"), ("/nowhere/at/all", "is no folder")],
)
def test_a_home_that_is_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, home: str, text: str
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", home)
    done = terminal.ask("doctor")
    assert done.exit_code == 1
    assert f"DAGSTER_HOME: {home}: {text}" in done.stdout


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ("storage:\n  postgres:\n    postgres_url: postgresql://db/dagster\n", False),
        ("run_queue:\n  max_concurrent_runs: 3\n", True),
        ("storage: [", True),
        (None, True),
    ],
)
def test_a_home_that_nobody_can_write_will_do_where_dagster_stores_elsewhere(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, settings: str | None, wrong: bool
) -> None:
    file = terminal.folder / "home" / "dagster.yaml"
    file.unlink(missing_ok=True)
    if settings is not None:
        file.write_text(settings)
    # Root, as which tests may run, can write whatever its mode is.
    monkeypatch.setattr(os, "access", lambda _, how: not how & os.W_OK)
    assert home().wrong is wrong


def test_settings_that_are_broken(terminal: Terminal) -> None:
    (terminal.folder / "home" / "dagster.yaml").write_text("no_such_setting: 1\n")
    done = terminal.ask("doctor")
    assert done.exit_code == 1
    assert any(line.startswith("dagster.yaml: ") for line in lines(done, "WRONG"))
    assert "no_such_setting" in done.stdout


def test_settings_that_are_no_yaml(terminal: Terminal) -> None:
    (terminal.folder / "home" / "dagster.yaml").write_text("a: [\n")
    done = terminal.ask("doctor")
    assert done.exit_code == 1
    assert any(line.startswith("dagster.yaml: ") for line in lines(done, "WRONG"))


def test_a_storage_that_is_damaged(healthy: Terminal) -> None:
    path = healthy.folder / "home" / "history" / "runs.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE daemon_heartbeats")
    done = healthy.ask("doctor")
    assert done.exit_code == 1
    (line,) = lines(done, "WRONG")
    assert line.startswith("Dagster: can't be asked: OperationalError: ")
    assert "clicks: answers" in done.stdout
    # What runs shows all the same, and that it is not known who watches.
    done = healthy.ask("status", "--once")
    assert done.exit_code == 0, done.output
    assert "clicks  warming up" in done.stdout
    assert "Whether anybody watches them is not known: " in done.stdout


def test_no_daemon(terminal: Terminal) -> None:
    done = terminal.ask("doctor")
    assert "daemon: has never run with this DAGSTER_HOME" in lines(done, "WRONG")
    assert "-> run `dagster-daemon run`" in done.stdout


@pytest.mark.parametrize(("ago", "text"), [(130, "2 min"), (3600, "60 min")])
def test_a_daemon_that_has_gone(healthy: Terminal, ago: float, text: str) -> None:
    beat(ago=ago)
    done = healthy.ask("doctor")
    (line,) = lines(done, "WRONG")
    assert line == f"daemon: gone: its last heartbeat was {text} ago, and one comes every 30 s"
    assert done.exit_code == 1


def test_one_of_its_threads_may_be_busy_for_as_long_as_dagster_lets_it(healthy: Terminal) -> None:
    beat(SENSOR=1500.0)
    assert lines(healthy.ask("doctor"), "WRONG") == []
    beat(SENSOR=3600.0)
    assert lines(healthy.ask("doctor"), "WRONG") == ["daemon: SENSOR was last heard 60 min ago"]


def test_what_could_be_better_is_no_fault(healthy: Terminal) -> None:
    (healthy.folder / "home" / "dagster.yaml").write_text("")
    beat()
    done = healthy.ask("doctor")
    assert done.exit_code == 0, done.output
    assert [line.split(":")[0] for line in lines(done, "better")] == [
        "run queue",
        "sensors",
        "retention",
        "run monitoring",
    ]
    assert "-> use_threads: true in sensors; see the sample dagster.yaml" in done.stdout


@pytest.mark.parametrize(
    ("settings", "better"),
    [
        ("use_threads: true\n  num_workers: 3", None),
        (
            "use_threads: true\n  num_workers: 2",
            "num_workers is 2, and 3 autoscalers are to be evaluated every minute",
        ),
        ("use_threads: true", None),
        (
            "use_threads: false\n  num_workers: 8",
            "use_threads is false: one is evaluated after the other, and 3 autoscalers are",
        ),
    ],
)
def test_fewer_threads_than_autoscalers(
    healthy: Terminal, settings: str, better: str | None
) -> None:
    healthy.declare(more=", shards=3")
    path = healthy.folder / "home" / "dagster.yaml"
    sample = path.read_text()
    mine = re.sub(r"\nsensors:\n  .*\n  .*", f"\nsensors:\n  {settings}", sample)
    assert f"sensors:\n  {settings}\nschedules:" in mine
    path.write_text(mine)
    done = healthy.ask("doctor")
    found = lines(done, "better")
    if better is None:
        assert found == []
        return
    (line,) = found
    assert line.startswith(f"sensors: {better}")
    assert "num_workers: 4 or more in sensors; see the sample dagster.yaml" in done.stdout


def test_threads_that_nobody_stated_are_as_few_as_a_small_machine_has(healthy: Terminal) -> None:
    healthy.declare(more=", shards=6")
    (healthy.folder / "home" / "dagster.yaml").write_text("sensors:\n  use_threads: true\n")
    beat()
    text = "sensors: num_workers is not set: 5 threads or more, by the processors of the"
    assert any(line.startswith(text) for line in lines(healthy.ask("doctor"), "better"))


@pytest.mark.parametrize(
    ("workers", "proxy", "told"),
    [
        (
            None,
            None,
            "DAGSTER_GRPC_MAX_WORKERS is not set in this shell, so that it answers 5 calls",
        ),
        ("7", "9", "DAGSTER_GRPC_MAX_WORKERS is 7; 6 autoscalers are"),
        ("8", "7", "DAGSTER_CODE_SERVER_MAX_WORKERS is 7; 6 autoscalers are"),
        # Dagster's code server is two processes, and one variable is of one of them.
        ("8", None, "DAGSTER_CODE_SERVER_MAX_WORKERS is not set in this shell"),
        (None, "8", "DAGSTER_GRPC_MAX_WORKERS is not set in this shell"),
        ("8", "8", None),
    ],
)
def test_a_code_server_that_evaluates_fewer_at_a_time(
    healthy: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    workers: str | None,
    proxy: str | None,
    told: str | None,
) -> None:
    if workers is not None:
        monkeypatch.setenv("DAGSTER_GRPC_MAX_WORKERS", workers)
    if proxy is not None:
        monkeypatch.setenv("DAGSTER_CODE_SERVER_MAX_WORKERS", proxy)
    healthy.declare(more=", shards=6")
    found = [line for line in lines(healthy.ask("doctor"), "better") if "code server" in line]
    assert [line.startswith(f"code server: {told}") for line in found] == (
        [] if told is None else [True]
    )


@pytest.mark.parametrize("workers", [None, 1, 3, 40])
def test_as_many_threads_as_dagster_s_daemon_has(
    monkeypatch: pytest.MonkeyPatch, workers: int | None
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 1, raising=False)
    settings: dict[str, Any] = {"use_threads": True}
    if workers is not None:
        settings["num_workers"] = workers
    daemon = SensorDaemon(settings)
    with daemon:
        executor = daemon._threadpool_executor
        assert executor is not None
        assert executor._max_workers == sensor_threads(settings)
    daemon = SensorDaemon({**settings, "use_threads": False})
    with daemon:
        assert daemon._threadpool_executor is None
    assert sensor_threads({}) == 1


def test_run_monitoring_needs_a_limit_where_the_launcher_does_not_look(healthy: Terminal) -> None:
    sample = (healthy.folder / "home" / "dagster.yaml").read_text()
    without = re.sub(r"\n  max_runtime_seconds: .*", "", sample)
    (healthy.folder / "home" / "dagster.yaml").write_text(without)
    done = healthy.ask("doctor")
    (line,) = lines(done, "better")
    assert line.startswith("run monitoring: without a limit: a run whose process died stays")
    assert "-> enabled: true and max_runtime_seconds, above the longest" in done.stdout
