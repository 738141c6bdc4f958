"""`status`: all streams in one table, looked at now."""

import json
import re
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorStatus

from dagster_sparkscale.cli import status as status_module
from dagster_sparkscale.names import CLUSTER_TAG, OPERATION_TAG, STREAM_TAG
from dagster_sparkscale.observe.status import Limit, Query
from dagster_sparkscale.watch.shards import spread
from tests.cli.daemon import beat, tick
from tests.cli.terminal import Terminal
from tests.fakes import QUERY, structured
from tests.in_memory.cluster import World
from tests.watch.deployment import grown


def table(terminal: Terminal, *words: str) -> list[str]:
    done = terminal.ask("status", "--once", *words)
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.stdout.splitlines()]


def of(terminal: Terminal, stream: str) -> dict[str, object]:
    """What `--json` says of a stream."""
    done = terminal.ask("status", "--json")
    assert done.exit_code == 0, done.output
    (row,) = (row for row in json.loads(done.stdout) if row["stream"] == stream)
    assert isinstance(row, dict)
    return row


class TestTable:
    def test_a_line_for_each_the_worst_first(self, terminal: Terminal) -> None:
        terminal.world.run(structured("orders"))
        terminal.world.end("orders")
        title, head, first, second, *_ = table(terminal)
        assert title.startswith("definitions.py/spark_cluster at ")
        assert title.endswith(": 1 of 2 in trouble")
        assert head.split("  ")[0] == "STREAM"
        assert first.startswith("orders  failed")
        assert "exit code 1" in first
        assert second.startswith("clicks  warming up")
        assert "2 of 10" in second

    def test_executors_that_fit_on_no_worker_are_said_to_be_so(self, terminal: Terminal) -> None:
        assert not [line for line in table(terminal) if "no worker has" in line]
        terminal.kept().requested, terminal.world.cores = 4, 2
        [line] = [line for line in table(terminal) if "no worker has" in line]
        assert line.startswith("clicks: 2 to come, but no worker has 1 core and 1g of memory free")

    def test_executors_that_have_their_place_are_only_slow(self, terminal: Terminal) -> None:
        terminal.kept().requested, terminal.world.cores = 4, 2
        app = terminal.kept().driver.app_id
        assert app is not None
        terminal.world.granted = {app: 3}
        [line] = [line for line in table(terminal) if "no worker has" in line]
        assert line.startswith("clicks: 1 to come, but no worker has")
        terminal.world.granted = {app: 4}
        assert not [line for line in table(terminal) if "no worker has" in line]

    def test_a_column_more_where_a_stream_has_a_limit(self, terminal: Terminal) -> None:
        assert "LIMIT" not in table(terminal)[1]
        terminal.kept().limits = (Limit("s", query=QUERY, rate=20.0, by="set"),)
        head, line = table(terminal)[1:3]
        assert line[head.index("LIMIT") :].startswith("set ")

    def test_one_that_nothing_starts_again_is_given_up(self, terminal: Terminal) -> None:
        terminal.declare('structured("clicks", recovery=None)')
        terminal.world.end("clicks", ended_at=time.time() - 3600)
        assert table(terminal)[2].startswith("clicks  given up for 60 min")
        row = of(terminal, "clicks")
        assert (row["state"], row["gave_up"]) == ("failed", True)

    def test_one_that_cannot_be_judged_costs_the_others_nothing(self, terminal: Terminal) -> None:
        terminal.world.run(structured("orders"))
        odd = Query(QUERY, active=True, interval_ms="x")  # type: ignore[arg-type]
        terminal.kept().queries, terminal.kept().batch_seconds = (odd,), 25.0
        grown(terminal.kept())
        _, _, first, second, *_ = table(terminal)
        assert first.startswith("clicks  unknown")
        assert second.startswith("orders  warming up")

    def test_what_is_to_be_done_is_a_command(self, terminal: Terminal) -> None:
        terminal.declare('structured("old")')
        assert terminal.ask("start", "old").exit_code == 0
        terminal.declare('structured("orders")')
        said = " ".join(" ".join(table(terminal)).split())
        assert "declare it again, or `sparkscale forget old -f definitions.py`" in said
        assert "`sparkscale forget clicks --whoever-declares-it -f definitions.py`" in said

    def test_brackets_in_what_is_the_matter_are_shown(self, terminal: Terminal) -> None:
        terminal.world.end("clicks", exit_reason="[red]it[/red] [broke]")
        assert "[red]it[/red] [broke]" in " ".join(" ".join(table(terminal)).split())

    def test_where_the_output_is_no_terminal_it_is_written_once(self, terminal: Terminal) -> None:
        done = terminal.ask("status")
        assert done.exit_code == 0
        assert done.stdout.count("STREAM") == 1

    def test_on_a_terminal_it_looks_again_until_it_is_interrupted(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                raise KeyboardInterrupt
            terminal.world.end("clicks")

        monkeypatch.setenv("FORCE_COLOR", "1")
        # Not that of the module `time`: other threads sleep as well.
        monkeypatch.setattr(status_module, "sleep", sleep)
        done = terminal.ask("status", "--every", "7")
        assert done.exit_code == 0
        assert pauses == [7, 7]
        assert done.stdout.index("warming up") < done.stdout.index("failed")

    def test_it_changes_nothing(self, terminal: Terminal) -> None:
        terminal.kept().batch_seconds = 25
        before = list(terminal.world.calls)
        table(terminal)
        assert terminal.world.calls == before
        assert terminal.runs() == []


class TestSome:
    """`status [STREAM]...`"""

    @pytest.fixture
    def several(self, terminal: Terminal) -> Terminal:
        terminal.declare(
            ", ".join(f'structured("{each}")' for each in ("a_1", "a_2", "b_1", "clicks"))
        )
        return terminal

    @pytest.mark.parametrize(
        ("asked", "shown"),
        [
            (["a_*"], {"a_1", "a_2"}),
            (["b_1", "?_2"], {"a_2", "b_1"}),
            (["clicks"], {"clicks"}),
            ([], {"a_1", "a_2", "b_1", "clicks"}),
        ],
    )
    def test_those_are_looked_at_whose_names_are_given(
        self, several: Terminal, asked: list[str], shown: set[str]
    ) -> None:
        title, _, *lines = table(several, *asked)
        assert f"of {len(shown)} in trouble" in title
        streams = {line.split("  ")[0] for line in lines if not line.startswith(" ")}
        assert streams & {"a_1", "a_2", "b_1", "clicks"} == shown
        done = several.ask("status", "--json", *asked)
        assert {row["stream"] for row in json.loads(done.stdout)} == shown

    def test_an_orphan_is_shown_where_its_name_is_meant(self, terminal: Terminal) -> None:
        terminal.world.run(structured("odd"), owner="definitions.py/spark_cluster")
        terminal.declare('structured("orders")')
        done = terminal.ask("status", "--once", "o*")
        assert "odd" in done.stdout and "orders" in done.stdout
        assert "odd" not in terminal.ask("status", "--once", "ord*").stdout
        done = terminal.ask("status", "--once", "odd")
        assert done.exit_code == 1 and "sparkscale forget odd" in done.stderr

    def test_a_name_that_no_stream_has(self, several: Terminal) -> None:
        done = several.ask("status", "--once", "a_*", "x_*")
        assert done.exit_code == 2
        assert "stream = 'x_*': no such stream; there is a_1, a_2, b_1, clicks" in done.stderr

    def test_a_cluster_that_has_none_of_them_need_not_be_there(self, terminal: Terminal) -> None:
        (terminal.folder / "definitions.py").write_text(
            "import dagster as dg\n"
            "from dagster_sparkscale import build_defs\n"
            "from tests.fakes import structured\n"
            "from tests.in_memory.cluster import MemoryCluster\n"
            f'one = MemoryCluster(world="{terminal.world.key}")\n'
            'other = MemoryCluster(world=dg.EnvVar("NOT_THERE_AT_ALL"))\n'
            "defs = dg.Definitions.merge(\n"
            '    build_defs([structured("clicks")], one),\n'
            '    build_defs([structured("others")], other, cluster_key="second"),\n'
            ")\n"
        )
        done = terminal.ask("status", "--once", "clicks")
        assert done.exit_code == 0
        left_out = "not looked at, as none is declared there: definitions.py/second\n"
        assert done.stderr.endswith(left_out)
        assert "NOT_THERE_AT_ALL" in terminal.ask("status", "--once").stderr

    def test_of_thousands_not_all_are_named(self, terminal: Terminal) -> None:
        terminal.declare('*(structured(f"s_{number:02}") for number in range(30))')
        done = terminal.ask("status", "--once", "odd")
        assert done.stderr.rstrip().endswith("s_18, s_19 and 10 more")


class TestWhoWatches:
    """The last line, and `unwatched` in JSON."""

    def test_nothing_is_said_where_somebody_does(self, healthy: Terminal) -> None:
        assert len(table(healthy)) == 4
        assert of(healthy, "clicks")["unwatched"] is None

    def test_no_daemon(self, healthy: Terminal) -> None:
        beat(ago=300)
        line = " ".join(table(healthy)[4:])
        assert line.startswith(
            "By this DAGSTER_HOME nobody watches these streams. daemon: gone: its last heartbeat "
            "was 5 min ago"
        )
        assert "run `dagster-daemon run`" in line
        assert str(of(healthy, "clicks")["unwatched"]).startswith("daemon: gone: ")

    def test_the_autoscaler_is_switched_off(self, healthy: Terminal) -> None:
        tick(InstigatorStatus.STOPPED)
        line = " ".join(table(healthy)[4:])
        assert "autoscaler: switched off" in line
        assert "`dagster sensor start autoscaler`" in line

    def test_one_of_several_is_switched_off(self, healthy: Terminal) -> None:
        names = ["clicks", "orders", "users", "carts"]
        streams = ", ".join(f'structured("{name}")' for name in names)
        healthy.declare(streams, more=", shards=2")
        second = "autoscaler_shard_2"
        its = spread(names, 2)[1]
        assert 0 < len(its) < 4
        tick(InstigatorStatus.RUNNING)
        tick(InstigatorStatus.STOPPED, sensor=second)
        text = " ".join(table(healthy))
        assert f"nobody watches {len(its)} of these streams. {second}: switched off: " in text
        assert f"{len(its)} of 4 streams are not watched, scaled or restarted" in text
        for name in names:
            found = of(healthy, name)
            assert (found["unwatched"] is not None) == (name in its)
            assert found["sensor"] == (second if name in its else "autoscaler")
        text = " ".join(table(healthy, its[0]))
        assert f"nobody watches these streams. {second}" in text
        other = next(name for name in names if name not in its)
        assert "nobody watches" not in " ".join(table(healthy, other))

    def test_of_several_each_is_named_for_its_own_streams(self, healthy: Terminal) -> None:
        names = [f"s_{number}" for number in range(9)]
        streams = ", ".join(f'structured("{name}")' for name in names)
        healthy.world.run(structured("odd"), owner="definitions.py/spark_cluster")
        healthy.declare(streams, more=", shards=3")
        tick(InstigatorStatus.RUNNING)
        parts = spread(names, 3)
        assert all(parts)
        off = ["autoscaler_shard_2", "autoscaler_shard_3"]
        for sensor in off:
            tick(InstigatorStatus.STOPPED, sensor=sensor)
        text = " ".join(table(healthy))
        for sensor, its in zip(off, parts[1:], strict=True):
            assert f"nobody watches {len(its)} of these streams. {sensor}: switched off" in text
            assert str(of(healthy, its[0])["unwatched"]).startswith(f"{sensor}: ")
            assert "nobody watches these streams. " + sensor in " ".join(table(healthy, its[0]))
        # Who looks for streams that are declared no more is at work.
        assert of(healthy, "odd")["unwatched"] is None

    def test_its_last_tick_is_long_ago(self, healthy: Terminal) -> None:
        tick(ago=900)
        assert "autoscaler: last ticked 15 min ago" in " ".join(table(healthy)[4:])

    @pytest.mark.parametrize(("ago", "watched"), [(60.0, True), (900.0, False)])
    def test_a_tick_that_failed_counts_when_none_has_been_in_order_for_long(
        self, terminal: Terminal, ago: float, watched: bool
    ) -> None:
        beat()
        tick(ago=ago)
        tick(ago=5.0, error="the code location is being loaded")
        why = of(terminal, "clicks")["unwatched"]
        assert (why is None) is watched
        assert watched or "its last tick failed: the code location is being" in str(why)

    def test_what_other_daemons_do_matters_to_nobody_here(self, healthy: Terminal) -> None:
        beat(ASSET=3600.0)
        assert of(healthy, "clicks")["unwatched"] is None

    def test_without_a_home_it_is_not_known(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DAGSTER_HOME")
        assert table(terminal)[4:] == [
            "Whether anybody watches them is not known: no DAGSTER_HOME is set"
        ]
        assert of(terminal, "clicks")["unwatched"] is None


class TestJson:
    def test_the_docs_name_its_keys_and_no_others(self, terminal: Terminal) -> None:
        terminal.kept().reachable = False
        row = of(terminal, "clicks")
        failing = row["failing"]
        assert isinstance(failing, list)
        given = [*row, *(f"failing[].{key}" for key in failing[0])]
        text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
        section = text.partition("\n## Status\n")[2].partition("\n## ")[0]
        named = [
            key
            for line in re.findall(r"^\| (`.*?) \|", section, re.M)
            for key in re.findall(r"`(.+?)`", line)
        ]
        assert sorted(named) == sorted(given)

    def test_what_is_not_measured_is_null(self, terminal: Terminal) -> None:
        row = of(terminal, "clicks")
        assert (row["state"], row["registered"], row["ratio"]) == ("running", 2, None)
        assert row["cluster"] == "definitions.py/spark_cluster"
        assert of(terminal, "orders")["registered"] is None

    def test_what_the_policy_would_do_now(self, terminal: Terminal) -> None:
        grown(terminal.kept()).batch_seconds = 25
        row = of(terminal, "clicks")
        assert (row["decision"], row["ratio"]) == ("scale to 5", 2.5)

    def test_an_operation_in_flight_is_what_it_waits_for(self, terminal: Terminal) -> None:
        with dg.DagsterInstance.get() as instance:
            instance.create_run_for_job(
                dg.GraphDefinition("rescale").to_job(),
                run_id="1a2b3c4d-0000-4000-8000-000000000000",
                tags={
                    CLUSTER_TAG: "spark_cluster",
                    STREAM_TAG: "clicks",
                    OPERATION_TAG: "rescale",
                },
            )
        assert of(terminal, "clicks")["waits"] == "rescale run 1a2b3c4d is in progress"

    def test_without_a_home_nothing_is_known_to_be_in_flight(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DAGSTER_HOME")
        assert of(terminal, "clicks")["waits"] is None

    def test_an_orphan_is_there(self, terminal: Terminal) -> None:
        terminal.declare('structured("old")')
        assert terminal.ask("start", "old").exit_code == 0
        terminal.declare()
        row = of(terminal, "old")
        assert row["state"] == "orphan"

    def test_one_of_another_code_location_is_not(self, terminal: Terminal) -> None:
        terminal.declare('structured("old")', file="other.py")
        assert terminal.type("start", "old", "-f", "other.py").exit_code == 0
        done = terminal.ask("status", "--json")
        assert [row["stream"] for row in json.loads(done.stdout)] == ["clicks", "orders"]


def test_every_cluster_has_a_table(terminal: Terminal) -> None:
    world = World()
    path = terminal.folder / "definitions.py"
    path.write_text(
        f"{path.read_text()}\nimport dagster as dg\ndefs = dg.Definitions.merge(\n    defs,\n"
        f"    build_defs([structured('visits')], MemoryCluster(world='{world.key}'),\n"
        "        cluster_key='far'),\n)\n"
    )
    assert sum("STREAM" in line for line in table(terminal)) == 2
    (title, *_) = table(terminal, "--cluster", "far")
    assert title.startswith("definitions.py/far")
