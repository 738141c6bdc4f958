"""Removing executors of a Spark that behaves as it does when something goes wrong.

What goes well is tried on a real cluster (`test_structured.py`, `test_dstreams.py`). A kill that is
lost needs a master that fails at the very moment, so `backend.py` plays one.
"""

import pytest
from py4j.protocol import Py4JError

from dagster_sparkscale.driver.executors.executors import (
    KILL_AGAIN_AFTER,
    LEAVE_WITHIN,
    LOST_WITHIN,
)
from dagster_sparkscale.driver.executors.guard import Going
from tests.driver.backend import Cluster


@pytest.mark.parametrize("master_answers", [True, False])
def test_an_executor_whose_kill_was_lost_is_killed_again(master_answers: bool) -> None:
    cluster = Cluster()
    cluster.backend.master_is_there, cluster.backend.master_answers = False, master_answers
    assert cluster.turn(3).removing == 1
    assert cluster.turn(3, after=KILL_AGAIN_AFTER).registered == 4
    cluster.backend.master_is_there = True
    cluster.turn(3, after=KILL_AGAIN_AFTER)
    seen = cluster.turn(3)
    assert (seen.registered, seen.removing) == (3, 0)


@pytest.mark.parametrize("decommissions", [True, False])
def test_an_executor_that_its_worker_decommissions_counts_as_leaving(
    decommissions: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether or not the application's settings enable that: a worker does not ask."""
    cluster = Cluster(decommissions)
    cluster.backend.decommissioned_by_worker = {"1"}
    assert cluster.turn(4).removing == 0
    assert cluster.keeper.pause() < LOST_WITHIN
    seen = cluster.turn(4, after=LOST_WITHIN)
    assert (seen.registered, seen.removing) == (4, 1)
    assert cluster.to_go.leaving == {"1"}  # so its receivers are moved
    assert cluster.keeper.pause() > LOST_WITHIN
    cluster.turn(4, after=LEAVE_WITHIN - 1)
    assert cluster.backend.registered == {"0", "1", "2", "3"}
    told = "".join(capfd.readouterr())
    assert told.count("executor 1 is leaving: decommissioned from outside") == 1
    # It is one of those that are too many.
    assert cluster.turn(3).removing == 1
    assert cluster.turn(2).removing == 2
    assert cluster.to_go.leaving == {"1", "3"}
    cluster.backend.registered -= {"1", "3"}
    seen = cluster.turn(2)
    assert (seen.registered, seen.removing) == (2, 0)
    assert cluster.to_go.leaving == frozenset()


def test_one_that_its_worker_decommissions_and_that_does_not_go_is_killed() -> None:
    cluster = Cluster(decommissions=True)
    cluster.backend.decommissioned_by_worker = {"1"}
    cluster.turn(4)
    cluster.turn(4, after=LOST_WITHIN)
    cluster.turn(3, after=LEAVE_WITHIN)
    assert cluster.backend.registered == {"0", "2", "3"}


def test_one_that_is_lost_is_none_that_leaves() -> None:
    """Spark keeps it on its list for a moment."""
    cluster = Cluster()
    cluster.backend.decommissioned_by_worker = {"1"}
    assert cluster.turn(4).removing == 0
    assert cluster.turn(4, after=LOST_WITHIN - 1).removing == 0
    cluster.backend.registered -= {"1"}
    assert cluster.turn(4, after=1).removing == 0
    cluster.backend.registered |= {"1"}  # a test's short cut: there is none of that number again
    assert cluster.turn(4).removing == 0


def test_in_a_stop_no_receiver_is_sent_away_from_one() -> None:
    cluster = Cluster(decommissions=True)
    cluster.backend.decommissioned_by_worker = {"1"}
    cluster.turn(4, stopping=True)
    assert cluster.turn(4, after=LOST_WITHIN, stopping=True).removing == 1
    assert cluster.to_go == Going()


def test_a_spark_that_does_not_tell_who_is_decommissioned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(decommissions=True)

    def absent(id: str) -> bool:
        raise Py4JError("An error occurred: Method isExecutorActive([]) does not exist")

    monkeypatch.setattr(cluster.backend, "isExecutorActive", absent)
    seen = cluster.turn(4)
    assert (seen.registered, seen.removing) == (4, 0)


def test_an_executor_that_was_killed_is_given_time_to_go() -> None:
    cluster = Cluster()
    cluster.backend.master_is_there = False
    cluster.turn(3)
    cluster.backend.master_is_there = True
    assert cluster.turn(3, after=KILL_AGAIN_AFTER - 1).registered == 4
    assert len(cluster.backend.registered) == 4
    cluster.turn(3, after=1)
    assert len(cluster.backend.registered) == 3


def test_one_that_the_cluster_manager_has_not_taken_note_of_is_killed_again_at_once() -> None:
    cluster = Cluster()
    cluster.backend.master_is_there = cluster.backend.master_answers = False
    cluster.turn(3)
    cluster.backend.master_is_there = True
    cluster.turn(3)
    assert len(cluster.backend.registered) == 3


def test_a_decommissioned_executor_whose_kill_was_lost_is_killed_again() -> None:
    cluster = Cluster(decommissions=True)
    cluster.turn(3)
    assert len(cluster.backend.decommissioned) == 1
    cluster.backend.master_is_there = False
    assert cluster.turn(3, after=LEAVE_WITHIN - 1).registered == 4
    assert not cluster.backend.pending
    cluster.turn(3, after=1)
    assert list(cluster.backend.pending) == cluster.backend.decommissioned
    cluster.backend.master_is_there = True
    cluster.turn(3, after=KILL_AGAIN_AFTER)
    assert len(cluster.backend.registered) == 3
