"""The life of a stream under each fault, by a few seeds; `soak_faults_in_memory.py` has thousands.

And whether whoever watches it sees what must not be: with a part of the cluster broken on purpose,
each of these schedules is found fault with.
"""

import importlib
import inspect
import pkgutil
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from dagster_sparkscale import clusters
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.fate import Fate, Observed
from dagster_sparkscale.clusters.records import overtaking
from dagster_sparkscale.clusters.records.store import Store
from dagster_sparkscale.state.plan import Settled
from tests.faults import deeds, manager, playing, processes, table
from tests.faults.kinds import ANYTHING, FAULTS, PARTS, Mode
from tests.faults.manager import PlayedAgent, PlayedDriver
from tests.faults.playing import play
from tests.faults.real.catalog import REAL
from tests.faults.real.running import Seen
from tests.faults.running import Tried, tried
from tests.faults.wrapping import AGENT, CLUSTER, CONTRACTS, DRIVER, STORE

SEEDS = range(1, 5)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_lives_through(fault):
    found = tried(fault, SEEDS)
    assert found.broken == {}
    assert found.calls > 0


def test_a_schedule_is_the_same_each_time():
    first, again = (play(ANYTHING, 7).story for _ in range(2))
    assert first == again
    assert first != play(ANYTHING, 8).story


def test_a_rate_may_be_given():
    assert play(ANYTHING, 7, rate=0.0).met.total() == 0


def test_the_page_has_a_row_for_each_fault():
    in_memory = table.PAGE.read_text().partition(table.END)[0]
    assert table.rows(in_memory) == list(FAULTS)


def test_what_a_row_says(tmp_path):
    page = tmp_path / "faults.md"
    page.write_text(f"before\n{table.BEGIN}\nof yesterday\n{table.END}\nafter\n")
    name = "agent-resets-after"
    good = Tried(name, 30, two_drivers=0, operations=300, recovered=[20.0, 30.0, 40.0])
    bad = Tried(name, 1, {9: ["down: 'clicks'"]}, operations=5)
    good.add(bad)
    table.write({name: good}, date(2026, 11, 26), page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "yesterday" not in text
    assert table.rows(text) == [name]
    assert "| 31 | 30 | 0 | 30, 40 | `make fault NAME=agent-resets-after SEED=9` |" in text
    assert "31 schedules with 305 operations. 30 held" in text
    assert "- `make fault NAME=agent-resets-after SEED=9`: down: 'clicks'" in text


class TestWrapped:
    def test_is_all_that_the_contracts_define(self):
        assert set(STORE.methods) == {"streams", "read", "swap", "claim", "swap_claim"}
        assert set(AGENT.methods) == {"status", "change", "stop"}
        assert set(DRIVER.methods) == {"look", "log", "kill", "clear", "has_begun", "make_way"}
        assert set(CLUSTER.methods) == {
            *("launching", "program_of", "took", "capacity"),
            *("check", "make_way", "prepare"),
        }

    @pytest.mark.parametrize("contract", [DRIVER, CLUSTER], ids=lambda each: each.kind.__name__)
    def test_is_all_that_any_cluster_manager_overrides(self, contract):
        for module in pkgutil.walk_packages(clusters.__path__, f"{clusters.__name__}."):
            importlib.import_module(module.name)
        ours = [each for each in below(contract.kind) if each.__module__.startswith(LIBRARY)]
        theirs = {name for kind in contract.kind.__mro__ for name in vars(kind)}
        overridden = {
            name
            for each in ours
            for name, method in vars(each).items()
            if inspect.isfunction(method) and name[0] != "_" and name in theirs
        }
        assert len(ours) >= 5
        assert overridden - contract.local <= {*contract.methods}

    @pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.kind.__name__)
    def test_what_is_left_out_is_there(self, contract):
        assert all(hasattr(contract.kind, name) for name in contract.local)

    @pytest.mark.parametrize("kind", [Store, RemoteAgent])
    def test_what_is_no_abstract_class_has_every_public_method_wrapped(self, kind):
        contract = next(each for each in CONTRACTS if each.kind is kind)
        public = {n for n, f in vars(kind).items() if inspect.isfunction(f) and n[0] != "_"}
        assert public == {*contract.methods, *contract.local}

    def test_meets_every_fault(self):
        met = {what for part in PARTS for what, _ in tried(f"{part}-resets-after", range(12)).met}
        seldom = (play(FAULTS["cluster-resets-after"], seed, rate=0.3).met for seed in range(12))
        met |= {what for each in seldom for what, _ in each}
        methods = {f"{each.part}.{name}" for each in CONTRACTS for name in each.methods}
        # A log is seldom asked for; drivers are killed that hang, mostly when the fault is over.
        assert methods - met <= {"cluster.kill", "cluster.log"}
        assert met - methods == {"cluster.launching()"}  # the launch that it has prepared

    def test_meets_it_in_every_way(self):
        assert {mode for _, mode in tried(ANYTHING.name, range(8)).met} == set(Mode)


def kinds_of_faults(name: str, seeds: Any) -> set[str]:
    found = tried(name, seeds)
    return {line.partition(":")[0] for lines in found.broken.values() for line in lines}


LIBRARY = "dagster_sparkscale."


def below(kind: type) -> list[type]:
    """All that derive from a class."""
    return [one for sub in kind.__subclasses__() for one in (sub, *below(sub))]


class TestSees:
    """Each of these breaks what is played, not the library."""

    def test_two_drivers(self, monkeypatch):
        def begins_without_a_look(self, it):
            self.clock.sleep(1.0)
            if it.phase != "ended":
                self._work(it, it.start.record.checkpoint)

        monkeypatch.setattr(processes.Processes, "_life", begins_without_a_look)
        found = kinds_of_faults("cluster-carried-out-late", range(60))
        assert "two drivers on one checkpoint" in found

    def test_what_was_told_and_not_done(self, monkeypatch):
        def takes_note_of_nothing(self, change, timeout=10.0, operation=None):
            return self.status()

        monkeypatch.setattr(PlayedAgent, "change", takes_note_of_nothing)
        assert "told, not done" in kinds_of_faults("agent-answers-late", range(12))

    def test_a_driver_that_goes_on_after_a_stop(self, monkeypatch):
        look = PlayedDriver.look

        def looks_ended(self):
            ended = Observed(Fate(DriverState.FAILED, reason="it looks so"))
            return ended if self.record.desired == "stopped" else look(self)

        monkeypatch.setattr(PlayedDriver, "look", looks_ended)
        monkeypatch.setattr(PlayedDriver, "clear", lambda self: None)
        assert "told, not done" in kinds_of_faults("agent-answers-late", range(4))

    def test_a_stream_that_nobody_starts_again(self, monkeypatch):
        monkeypatch.setattr(playing, "Restart", type(None))
        assert "down" in kinds_of_faults("agent-answers-late", range(40))

    def test_requests_that_are_ordered_by_a_clock_without_a_doubt(self, monkeypatch):
        def later(at, asked_at, now):
            return "after" if at > asked_at else None

        monkeypatch.setattr(overtaking, "_later", later)
        assert "told, not done" in kinds_of_faults("clocks-apart", range(1, 12))

    def test_that_nothing_works_once_the_fault_is_over(self, monkeypatch):
        rescale = deeds._ACTS["rescale"]

        def fails_later(cluster, deed, requester):
            if cluster._place.network.fault is None:
                raise ClusterError("no answer in 10 s")
            return rescale(cluster, deed, requester)

        monkeypatch.setitem(deeds._ACTS, "rescale", fails_later)
        assert "not done" in kinds_of_faults("agent-resets-after", range(12))

    def test_a_restart_that_only_looks(self, monkeypatch):
        monkeypatch.setitem(deeds._ACTS, "restart", deeds._ACTS["start"])
        assert "told, not done" in kinds_of_faults("agent-resets-after", range(12))

    def test_a_change_that_is_said_to_be_there(self, monkeypatch):
        def settled(cluster, deed, requester):
            return Settled("it has them")

        monkeypatch.setitem(deeds._ACTS, "reconfigure", settled)
        assert "told, not done" in kinds_of_faults("agent-resets-after", range(12))

    def test_executors_that_are_told_to_have_come_and_have_not(self, monkeypatch):
        rescale = deeds._ACTS["rescale"]

        def reached(cluster, deed, requester):
            return replace(rescale(cluster, deed, requester), ending="reached")

        monkeypatch.setattr(deeds, "PATIENCE", 0.0)
        monkeypatch.setattr(manager, "_step", lambda kept, world: None)
        monkeypatch.setattr(processes, "arrive", lambda kept: None)
        monkeypatch.setitem(deeds._ACTS, "rescale", reached)
        assert "told, not done" in kinds_of_faults("store-resets-after", range(16))

    def test_an_operation_that_moves_a_receiver_twice(self, monkeypatch):
        monkeypatch.setattr(manager, "_is_there", lambda kept, move: False)
        found = kinds_of_faults("agent-resets-after", range(30))
        assert "done twice" in found


def test_a_real_fault_that_is_played_again_has_its_row_replaced_and_others_stay(tmp_path):
    page = tmp_path / "faults.md"
    page.write_text(f"before\n{table.BEGIN_REAL}\n\n{table.END_REAL}\nafter\n")
    first = {
        "kafka-link-cut": Seen(True, "the same driver went on", 2.4),
        "checkpoint-full": Seen(False, "AssertionError: <a|b>", None),
    }
    table.write_real(first, date(2026, 11, 26), page)
    assert "2 faults, of which 1 held" in page.read_text()
    assert "**did not hold**: AssertionError: (a/b)" in page.read_text()
    table.write_real({"checkpoint-full": Seen(True, "well", 3.0)}, date(2026, 11, 27), page)
    text = page.read_text()
    assert "2 faults, of which 2 held." in text
    assert "the same driver went on | 2 | 26.11.2026 | `make fault NAME=kafka-link-cut` |" in text
    assert "well | 3 | 27.11.2026 | `make fault NAME=checkpoint-full` |" in text
    assert text.startswith("before\n") and text.endswith("\nafter\n")


def test_every_row_of_the_page_is_of_a_fault_that_there_is():
    begun = table.PAGE.read_text().partition(table.BEGIN_REAL)[2]
    assert set(table.rows(begun)) <= set(REAL)
