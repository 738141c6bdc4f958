"""What a start leaves behind that is refused, that gets no answer, or that comes after others."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError, LeaseLost
from dagster_sparkscale.clusters.kubernetes import names, notes
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.launch import Parts, launch
from dagster_sparkscale.clusters.kubernetes.manifests import Objects
from dagster_sparkscale.clusters.kubernetes.store import MapStore
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.records.store import Holding, Record
from tests.clusters.kubernetes.memory import Client, Server

RECORD = Record("1" * 16, 3, "running", 0.0, "", (), lease=Holding("start", 7, 1.0), revision=1)
NAME = "sparkscale-clicks-3"
PARTS = Parts({"token": "t"}, {"A": "b"}, {"in_pod.py": b"x"}, b"parcel", ["python3"], {})
OF_A_START = [("configmaps", NAME), ("pods", NAME), ("secrets", NAME), ("services", NAME)]


class Fails(Client):
    """An API server that does something else at one call.

    Args:
        at: how the call begins.
        error: what comes of it.
        done: whether it is carried out all the same.
    """

    def __init__(self, server: Server, at: str, error: Exception, done: bool = False) -> None:
        def fail(call: str) -> None:
            if call.startswith(at):
                raise error

        super().__init__(server, **{"after" if done else "before": fail})


@pytest.fixture
def server() -> Server:
    made = Server(prompt=False)
    MapStore(Client(made)).swap("clicks", RECORD)
    return made


def of_starts(server: Server) -> list[tuple[str, str]]:
    return sorted(key for key in server.objects if key[1].startswith("sparkscale-"))


def launched(client: Client, record: Record = RECORD, epoch: int = 3) -> None:
    placing = Placing(client.namespace, "spark", "driver", 30)
    store = MapStore(Client(client.server))
    launch(client, store, Objects("clicks", epoch, "1" * 16, placing), record, PARTS)


def old_secret(server: Server, epoch: str, stream: str = "clicks") -> None:
    """One that another start has left."""
    labels = names.labels(stream, 0, "1" * 16) | {names.EPOCH: epoch}
    name = f"sparkscale-{stream}-{epoch}"
    Client(server).create("secrets", {"metadata": {"name": name, "labels": labels}})


def test_all_that_a_driver_needs_is_made_and_belongs_to_its_secret(server: Server) -> None:
    launched(Client(server))
    assert of_starts(server) == OF_A_START
    root = server.objects["secrets", NAME]
    assert sorted(root["data"]) == ["env.A", "token"]
    for kind in ("configmaps", "services", "pods"):
        (owner,) = server.objects[kind, NAME]["metadata"]["ownerReferences"]
        assert owner["uid"] == root["metadata"]["uid"]
    assert set(server.objects["configmaps", NAME]["binaryData"]) >= {
        "in_pod.py",
        "dagster_sparkscale.zip",
    }
    container = server.objects["pods", NAME]["spec"]["containers"][0]
    assert container["args"] == ["python3"]
    assert [each["name"] for each in container["env"]][-1] == "A"
    assert container["resources"]["requests"]["cpu"] == "1"


def test_what_a_template_has_that_pods_have_not_is_to_be_refused(server: Server) -> None:
    asked = []

    class Asked(Client):
        def create(self, kind, manifest, **query):
            asked.append((kind, query))
            return super().create(kind, manifest, **query)

    launched(Asked(server))
    assert asked[-1] == ("pods", {"fieldValidation": "Strict"})


@pytest.mark.parametrize(
    "now",
    [
        {"lease": None},
        {"lease": Holding("stop", 8, 1.0)},
        {"epoch": 4},
        {"id": "2" * 16},
    ],
)
def test_a_start_whose_stream_is_anothers_by_now_takes_its_secret_back(
    server: Server, now: dict[str, Any]
) -> None:
    MapStore(Client(server)).swap("clicks", replace(RECORD, revision=2, **now))
    old_secret(server, "2")
    with pytest.raises(LeaseLost, match="another operation has taken 'clicks' over while it was"):
        launched(Client(server))
    assert of_starts(server) == [("secrets", "sparkscale-clicks-2")]


def test_a_start_of_a_stream_that_is_forgotten_takes_its_secret_back(server: Server) -> None:
    server.objects.clear()
    with pytest.raises(LeaseLost):
        launched(Client(server))
    assert of_starts(server) == []


def test_a_start_that_never_had_a_lease_is_not_anothers(server: Server) -> None:
    unleased = replace(RECORD, lease=None, revision=2)
    MapStore(Client(server)).swap("clicks", unleased)
    launched(Client(server), unleased)
    assert of_starts(server) == OF_A_START


@pytest.mark.parametrize("at", ["GET configmaps/", "POST configmaps", "POST services", "POST pods"])
@pytest.mark.parametrize("done", [False, True])
def test_of_a_start_that_gets_no_answer_nothing_can_run(
    server: Server, at: str, done: bool
) -> None:
    """Whether it was carried out or not, and with nodes that are prompt."""
    client = Fails(server, at, Unreachable("no answer"), done)
    placing = Placing(client.namespace, "spark", "driver", 30)
    with pytest.raises(Unreachable, match="no answer"):
        launch(client, MapStore(client), Objects("clicks", 3, "1" * 16, placing), RECORD, PARTS)
    assert not {"pods", "secrets"} & {kind for kind, _ in of_starts(server)}
    server.settles()
    assert of_starts(server) == [] and server.ran == []


def test_what_can_not_be_taken_back_is_told_and_the_rest_is(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(call: str) -> None:
        if call == "POST pods" or call.startswith("DELETE secrets"):
            raise Unreachable(f"no answer to {call}")

    with pytest.raises(Unreachable, match="no answer to POST pods"):
        launched(Client(server, after=answer))
    assert ("pods", NAME) not in of_starts(server)
    assert caplog.messages == [
        f"secrets {NAME} can't be deleted: no answer to DELETE secrets/{NAME}"
    ]


def test_a_start_that_was_held_up_takes_back_its_own_secret_only(server: Server) -> None:
    """Somebody has deleted that, and there is another of its name."""

    def swap_it(call: str) -> None:
        if call == "POST pods":
            del server.objects["secrets", NAME]
            old_secret(server, "3")
            raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        launched(Client(server, before=swap_it))
    assert ("secrets", NAME) in of_starts(server)


def test_a_refusal_is_noted_as_an_end_that_left_no_mark(server: Server) -> None:
    """Of a pod template that pods can't have, for example: the next start may say so, too."""
    refusal = Refused("Kubernetes refused it: exceeded quota: q", 403, "Forbidden")
    told = "'clicks' could not be launched: Kubernetes refused it: exceeded quota: q"
    with pytest.raises(ClusterError, match=told) as caught:
        launched(Fails(server, "POST pods", refusal))
    assert not isinstance(caught.value, Refused)
    note = notes.read(server.objects["secrets", NAME])
    assert note is not None and not note.took
    assert note.reason == "was never launched: Kubernetes refused it: exceeded quota: q"
    assert note.at > 1.7e9
    assert ("pods", NAME) not in of_starts(server)


def test_a_secret_that_is_there_already_is_left_and_named(server: Server) -> None:
    old_secret(server, "3")
    before = server.objects["secrets", NAME]["metadata"]["uid"]
    told = (
        f"there is a Secret streams/{NAME} already, of a stream 'clicks' that is not the one "
        r"remembered: .*\(kubectl delete secret -n streams sparkscale-clicks-3\)"
    )
    with pytest.raises(ClusterError, match=told):
        launched(Client(server))
    assert server.objects["secrets", NAME]["metadata"]["uid"] == before
    assert of_starts(server) == [("secrets", NAME)]


@pytest.mark.parametrize("reason", ["Forbidden", "Conflict"])
def test_a_secret_that_is_refused_leaves_nothing(server: Server, reason: str) -> None:
    refusal = Refused("Kubernetes refused it: no", 403 if reason == "Forbidden" else 409, reason)
    with pytest.raises(ClusterError, match="'clicks' could not be launched: Kubernetes refused"):
        launched(Fails(server, "POST secrets", refusal))
    assert of_starts(server) == []


def test_what_older_starts_have_left_goes_and_nothing_else(server: Server) -> None:
    for epoch in ("1", "2", "4", "12"):
        old_secret(server, epoch)
    old_secret(server, "1", stream="orders")
    old_secret(server, "x")  # by hand
    Client(server).create("secrets", {"metadata": {"name": "theirs", "labels": {}}})
    launched(Client(server))
    assert server.names("secrets") == [
        "sparkscale-clicks-12",
        NAME,
        "sparkscale-clicks-4",
        "sparkscale-orders-1",
        "theirs",
    ]


@pytest.mark.parametrize("at", ["GET secrets", "DELETE secrets/"])
def test_a_driver_that_runs_is_not_lost_over_what_can_not_be_cleaned_up(
    server: Server, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    old_secret(server, "2")
    launched(Fails(server, at, Unreachable("no answer")))
    assert ("pods", NAME) in of_starts(server)
    assert set(caplog.messages) == {"what older drivers of 'clicks' have left stays: no answer"}
    assert caplog.records[0].levelno == logging.WARNING


def test_what_refused_starts_have_left_goes_before_the_next_one_is_made(server: Server) -> None:
    """It counts in the quota by which that one would be refused, too."""
    for epoch in ("1", "2", "3"):
        old_secret(server, epoch)
    quota = Refused("exceeded quota: count/secrets", 403, "Forbidden")
    with pytest.raises(ClusterError, match="exceeded quota"):
        launched(Fails(server, "POST secrets", quota), replace(RECORD, epoch=4), epoch=4)
    # The newest of them tells of itself until another has come in its place.
    assert server.names("secrets") == ["sparkscale-clicks-3"]


def test_an_older_secret_that_was_made_anew_is_not_deleted(server: Server) -> None:
    old_secret(server, "2")

    def make_anew(call: str) -> None:
        if call.startswith("DELETE secrets/"):
            del server.objects["secrets", "sparkscale-clicks-2"]
            old_secret(server, "2")

    launched(Client(server, before=make_anew))
    assert "sparkscale-clicks-2" in server.names("secrets")
