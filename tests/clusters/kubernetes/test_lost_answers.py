"""Answers of the API server that are lost, to calls which it has carried out, cost no lease."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.errors import ClusterError, LeaseLost
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.store import MapStore
from dagster_sparkscale.clusters.records.leases import Lease, hold
from dagster_sparkscale.clusters.records.store import Record, Submission
from tests.clusters.kubernetes.memory import Client, Server

LOST = Unreachable("the API server gave no answer")


class Losing(Client):
    """Loses the answers to the next writes, which are done.

    Attributes:
        losing: how many.
        error: what comes in their place.
    """

    losing = 0
    error: ClusterError = LOST

    def __init__(self, server: Server) -> None:
        def lose(call: str) -> None:
            if self.losing and call.startswith(("PUT", "POST")):
                self.losing -= 1
                raise self.error

        super().__init__(server, after=lose)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Losing:
    return Losing(server)


@contextmanager
def unkept(lease: Lease) -> Iterator[None]:
    yield


def held(client: Client, holder: str = "stop"):
    return hold(MapStore(client), "clicks", holder, 0.0, keeping=unkept)


def kept(server: Server) -> Record:
    record = MapStore(Client(server)).read("clicks")
    assert record is not None
    return record


@pytest.mark.parametrize("first", [True, False])
def test_a_lease_that_was_taken_is_held_though_that_was_not_told(
    server: Server, client: Losing, first: bool
) -> None:
    if not first:
        with held(client):
            pass
    client.losing = 1
    with held(client) as lease:
        lease.renew()
        assert kept(server).lease == lease.record.lease
    assert kept(server).lease is None


def test_a_renewal_whose_answer_is_lost_is_one(server: Server, client: Losing) -> None:
    with held(client) as lease:
        for _ in range(3):
            client.losing = 1
            with pytest.raises(Unreachable):
                lease.renew()
            lease.renew()
        assert kept(server) == lease.record


def test_what_is_written_after_a_renewal_that_was_not_told_stands(
    server: Server, client: Losing
) -> None:
    with held(client) as lease:
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.renew()
        lease.write(replace(lease.record, executors=3))
        assert kept(server).executors == 3 and kept(server) == lease.record


def test_what_was_written_stands_though_that_was_not_told(server: Server, client: Losing) -> None:
    with held(client) as lease:
        client.losing = 1
        long = tuple(Submission(epoch, 1.0, "manual") for epoch in range(1, 100))
        with pytest.raises(Unreachable):
            lease.write(replace(lease.record, epoch=99, history=long))
        lease.renew()
        assert kept(server).epoch == lease.record.epoch == 99
        lease.write(replace(lease.record, executors=3))
    assert (kept(server).epoch, kept(server).executors, kept(server).lease) == (99, 3, None)


def test_a_stream_is_free_at_once_whose_operation_lost_the_last_answer(
    server: Server, client: Losing
) -> None:
    with held(client) as lease:
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.renew()
    with held(Client(server), "start") as later:
        assert later.number == 2


def test_a_write_that_was_handed_on_twice_is_no_conflict_with_itself(
    server: Server, client: Losing
) -> None:
    """As by a proxy: its first answer is lost there, and the second is a refusal."""
    client.error = Refused("the object has been modified", 409, "Conflict")
    with held(client) as lease:
        client.losing = 1
        lease.renew()
        assert kept(server) == lease.record


def test_what_another_has_written_meanwhile_is_a_conflict_as_ever(
    server: Server, client: Losing
) -> None:
    with held(client) as lease:
        mine = lease.record
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.renew()
        later = kept(server)
        theirs = replace(later, revision=later.revision + 1, desired="running")
        MapStore(Client(server)).swap("clicks", theirs)
        with pytest.raises(LeaseLost):
            lease.renew()
        with pytest.raises(LeaseLost):
            lease.write(mine)


@pytest.fixture
def silent(client: Losing) -> list[bool]:
    """Whether nobody answers the client."""
    silent = [False]

    def nothing(call: str) -> None:
        if silent[0]:
            raise LOST

    client.before = nothing
    return silent


def test_a_lease_outlives_a_silence_that_follows_a_lost_answer(
    server: Server, client: Losing, silent: list[bool]
) -> None:
    with held(client) as lease:
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.renew()
        silent[0] = True
        with pytest.raises(Unreachable):
            lease.renew()
        silent[0] = False
        lease.renew()
        assert kept(server) == lease.record


def test_a_lease_outlives_a_silence_that_follows_a_write_that_was_not_told(
    server: Server, client: Losing, silent: list[bool]
) -> None:
    with held(client) as lease:
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.write(replace(lease.record, executors=3))
        silent[0] = True
        for _ in range(2):
            with pytest.raises(Unreachable):
                lease.renew()
        silent[0] = False
        lease.renew()
        assert kept(server) == lease.record and lease.record.executors == 3


def test_a_conflict_that_could_not_be_looked_at_is_looked_at_again(
    server: Server, client: Losing
) -> None:
    """As by a proxy that hands a write on twice, after which nobody answers for a moment."""
    silent = [0]

    def nothing(call: str) -> None:
        if call.startswith("PUT"):
            silent[0] = 1
        elif silent[0]:
            silent[0] -= 1
            raise LOST

    client.error = Refused("the object has been modified", 409, "Conflict")
    with held(client) as lease:
        client.before = nothing
        client.losing = 1
        with pytest.raises(Unreachable):
            lease.renew()
        client.before = lambda call: None
        lease.renew()
        assert kept(server) == lease.record
