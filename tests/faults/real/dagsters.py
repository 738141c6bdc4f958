"""Dagster's own processes stand still for longer than a lease, and go on.

What must hold: a person's request is carried out meanwhile; there is one driver at most all the
while; a run that wakes up finds that it has lost its lease, says so, and does nothing more; what
died while the daemon stood still is started again, once.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psutil
import pytest

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.clusters.records.starts import ATTEMPT
from dagster_sparkscale.clusters.records.store import Holding, Record
from dagster_sparkscale.observe.status import Status
from dev.dagster_ui import AT_ONCE
from tests.clusters.running import kill
from tests.e2e.soak_faults import VICTIMS, drivers
from tests.e2e.test_restart import Dagster, processes
from tests.faults.real import location
from tests.faults.real.processes import LASTS, at_most_one_moves, standing_still
from tests.faults.real.watched import Record as Recorded
from tests.faults.real.watched import lasts, recovers
from tests.waiting import wait_for

NAME = location.STREAM
_SAY = ("has lost its lease", "gave no answer")
"""Of an answer that was there, and not read in time, the latter."""
_LOOKED_EVERY = 0.005
"""Seconds: a rescale has its lease for a few hundredths of one."""


@dataclass(frozen=True)
class Deployed:
    dagster: Dagster
    cluster: LocalCluster

    def record(self) -> Record | None:
        return self.cluster.store().read(NAME)

    def driver(self) -> Driver:
        driver = self.cluster.find(NAME)
        assert driver is not None
        return driver

    def status(self) -> Status | None:
        with suppress(AgentUnreachable):
            return self.cluster.status(self.driver())
        return None

    def epochs(self) -> list[int]:
        """Of its launches: of a recovery that stood still the attempt is in the history, too."""
        history = self.cluster.history(NAME)
        return [start.epoch for start in history if start.cause != ATTEMPT]

    def runs(self, epoch: int) -> bool:
        """Whether the driver of that epoch is the only one, and has batches."""
        s = self.status()
        one = len(drivers(self.cluster.state_dir)) == 1
        return bool(one and s and s.epoch == epoch and s.registered and s.batches)

    def started(self) -> int:
        """Have it run; its epoch."""
        self.dagster.succeed(self.dagster.materialize())
        epoch = self.driver().epoch
        wait_for("a batch", lambda: self.runs(epoch))
        return epoch

    def daemon(self) -> list[psutil.Process]:
        """Dagster's daemon, with all that it has started: its code server, and its runs."""
        assert self.dagster.daemon is not None
        first = psutil.Process(self.dagster.daemon)
        return [first, *first.children(recursive=True)]

    def kill_driver(self) -> None:
        for process in VICTIMS["the driver"](self.cluster, self.driver()):
            kill(process)

    def why(self, run_id: str) -> str:
        """What a run that has failed says of that."""
        run = self.dagster.instance.get_run_by_id(run_id)
        assert run is not None and run.is_failure, run
        found = [
            entry.dagster_event.step_failure_data
            for entry in self.dagster.instance.all_logs(run_id)
            if entry.dagster_event is not None and entry.dagster_event.is_step_failure
        ]
        [failure] = found
        assert failure.user_failure_data is not None, failure.error
        return failure.user_failure_data.description or ""


@contextmanager
def deployed(cluster: LocalCluster, folder: Path) -> Iterator[Deployed]:
    (home := folder / "home").mkdir()
    (home / "dagster.yaml").write_text(AT_ONCE)
    with (
        pytest.MonkeyPatch.context() as patch,
        processes(folder) as children,
        dg.DagsterInstance.from_config(str(home)) as instance,
    ):
        patch.setenv(location.WHERE, str(folder))
        patch.setenv(location.CLUSTER, json.dumps(cluster.model_dump()))
        dagster = Dagster(
            *(children, folder, instance, location.__name__), stream=NAME, watches=True
        )
        yield Deployed(dagster, cluster)


def play(d: Deployed, name: str, record: Recorded) -> None:
    epoch = d.started()
    newest = PLAYS[name](d, epoch, record)
    known = d.epochs()
    assert known[-1] == newest and known == list(range(1, newest + 1)), known
    d.dagster.succeed(asked := d.dagster.launch("rescale", target=1))
    assert d.dagster.said(asked, "1 registered"), asked
    assert d.epochs() == known and len(drivers(d.cluster.state_dir)) == 1
    d.dagster.succeed(d.dagster.launch("stop"))
    assert drivers(d.cluster.state_dir) == []


def _daemon(d: Deployed, epoch: int, record: Recorded) -> int:
    with standing_still(d.daemon()):
        d.dagster.succeed(d.dagster.launch("rescale", target=2))
        d.kill_driver()
        lasts(LASTS, lambda: d.epochs()[-1] == epoch and not drivers(d.cluster.state_dir))
    recovers(record, "the next driver, with batches", lambda: d.runs(epoch + 1))
    record("seen", "a rescale was done meanwhile; the driver died, and the daemon had it restarted")
    return epoch + 1


def _daemon_recovering(d: Deployed, epoch: int, record: Recorded) -> int:
    d.kill_driver()
    with _in_the_middle(d, "restart", of_daemon=True) as woken:
        asked = d.dagster.materialize()
        lasts(LASTS, lambda: at_most_one_moves(d.cluster))
        d.dagster.succeed(asked)
        newest = d.epochs()[-1]
        assert newest > epoch
    said = _woken(d, woken)
    recovers(record, "one driver with batches", lambda: d.runs(newest))
    record("seen", f"a person has started the stream meanwhile; {said}")
    return newest


def _run_rescale(d: Deployed, epoch: int, record: Recorded) -> int:
    d.dagster.launch("rescale", target=3)
    with _in_the_middle(d, "rescale") as woken:
        asked = d.dagster.launch("rescale", target=2)
        lasts(LASTS, lambda: d.runs(epoch))
        d.dagster.succeed(asked)
    said = _woken(d, woken)
    recovers(record, "what was asked for last", lambda: (s := d.status()) and s.registered == 2)
    record("seen", f"a person has had it rescaled to another number meanwhile; {said}")
    return epoch


def _run_restart(d: Deployed, epoch: int, record: Recorded) -> int:
    d.dagster.launch("restart")
    with _in_the_middle(d, "restart", lambda now: now.desired == "restarting") as woken:
        asked = d.dagster.materialize()
        lasts(LASTS, lambda: at_most_one_moves(d.cluster))
        d.dagster.succeed(asked)
        newest = d.epochs()[-1]
    said = _woken(d, woken)
    recovers(record, "one driver with batches", lambda: d.runs(newest))
    went_on = "the same driver went on" if newest == epoch else "the next driver was started"
    record("seen", f"a person has materialized the stream meanwhile: {went_on}; {said}")
    return newest


PLAYS: dict[str, Callable[[Deployed, int, Recorded], int]] = {
    "stopped-daemon": _daemon,
    "stopped-recovering-daemon": _daemon_recovering,
    "stopped-run-rescale": _run_rescale,
    "stopped-run-restart": _run_restart,
}
"""Each returns the epoch of the driver that runs in the end."""


@contextmanager
def _in_the_middle(
    d: Deployed,
    job: str,
    middle: Callable[[Record], bool] = lambda _: True,
    *,
    of_daemon: bool = False,
) -> Iterator[str]:
    """Have the next run of that job stand still while it has the lease.

    Args:
        middle: whether it is where it is to be stopped.
        of_daemon: whether all of the daemon stands still with it.

    Yields:
        The id of the run.
    """

    def caught() -> Holding | None:
        now = d.record()
        held = now.lease if now is not None else None
        has_it = now is not None and held is not None and held.holder.startswith(f"{job} run ")
        return held if has_it and now is not None and middle(now) else None

    held = wait_for(f"a {job} in the middle", caught, every=_LOOKED_EVERY)
    assert held is not None
    run = psutil.Process(held.process.pid)
    with standing_still(d.daemon() if of_daemon else [run]):
        wait_for("it to stand still", lambda: run.status() == psutil.STATUS_STOPPED)
        now = d.record()
        assert now is not None and now.lease is not None, "it was stopped too late"
        assert now.lease.number == held.number, "it was stopped too late"
        begun = held.holder.removeprefix(f"{job} run ")
        [run_id] = [
            each.run_id for each in d.dagster.instance.get_runs() if each.run_id.startswith(begun)
        ]
        yield run_id


def _woken(d: Deployed, run_id: str) -> str:
    """What a run does that has lost its lease and goes on: nothing but to say so."""
    before = d.record()
    wait_for("it to end", lambda: d.dagster.ended(run_id))
    why = d.why(run_id)
    said = next((each for each in _SAY if each in why), None)
    assert said is not None, why
    now = d.record()
    assert before is not None and now is not None
    assert (now.epoch, now.executors) == (before.epoch, before.executors)
    return f"the run woke up, failed, and said: {said}"
