"""What is remembered, on an API server in memory: every change is a swap, and says who it met."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import places
from dagster_sparkscale.clusters.host.folders import HISTORY
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.store import MapStore, records_of
from dagster_sparkscale.clusters.records.store import Claim, Conflict, Record, Submission
from tests.clusters.kubernetes.memory import Client, Server

PLACE = "s3a://data/clicks"
OF_CLICKS = names.of_record("clicks")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def store(server: Server) -> MapStore:
    return MapStore(Client(server))


def record(revision: int = 1, **fields: Any) -> Record:
    return replace(Record.new("1" * 16), revision=revision, **fields)


def meanwhile(server: Server, method: str, deed: Callable[[], Any]) -> MapStore:
    """A store on which somebody does something right before the first such call."""
    deeds = [deed]

    def before(call: str) -> None:
        if call.startswith(method) and deeds:
            deeds.pop()()

    return MapStore(Client(server, before))


def test_what_was_never_remembered_is_none(store: MapStore) -> None:
    assert store.read("clicks") is None
    assert store.claim(PLACE) is None
    assert store.streams() == []


def test_a_record_is_read_as_it_was_put(server: Server, store: MapStore) -> None:
    first = record(epoch=3, history=(Submission(3, 5.0, "manual"),), rates={"*": {"maxRate": 2.5}})
    store.swap("my_clicks", first)
    assert store.read("my_clicks") == first
    second = replace(first, revision=2, epoch=4)
    store.swap("my_clicks", second)
    assert MapStore(Client(server)).read("my_clicks") == second
    store.swap("Orders", record())
    assert store.streams() == ["Orders", "my_clicks"]
    kept = server.objects["configmaps", "sparkscale.my-clicks"]
    assert (kept["apiVersion"], kept["kind"]) == ("v1", "ConfigMap")
    assert kept["metadata"]["namespace"] == "streams"
    assert kept["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "dagster-sparkscale",
        "dagster-sparkscale/keeps": "record",
        "dagster-sparkscale/stream": "my-clicks",
    }
    assert kept["metadata"]["annotations"] == {"dagster-sparkscale/stream-name": "my_clicks"}
    assert json.loads(kept["data"]["content"])["epoch"] == 4


def test_a_claim_is_read_as_it_was_put_and_is_no_record(server: Server, store: MapStore) -> None:
    claim = Claim(PLACE, "clicks", "1" * 16, 1)
    store.swap_claim(claim)
    assert store.claim(PLACE) == claim
    given_on = replace(claim, stream="orders", revision=2, taken_by=("1" * 16, 7))
    store.swap_claim(given_on)
    assert store.claim(PLACE) == given_on
    assert store.claim("s3a://data/other") is None
    assert store.streams() == []
    kept = server.objects["configmaps", names.of_claim(PLACE)]["metadata"]
    assert kept["labels"] == {
        "app.kubernetes.io/managed-by": "dagster-sparkscale",
        "dagster-sparkscale/keeps": "claim",
    }
    assert kept["annotations"] == {"dagster-sparkscale/stream-name": "orders"}


@pytest.mark.parametrize("revision", [1, 2, 4])
def test_who_has_not_seen_what_is_there_changes_nothing(store: MapStore, revision: int) -> None:
    for there in (1, 2):
        store.swap("clicks", record(there))
        store.swap_claim(Claim(PLACE, "clicks", "1" * 16, there))
    with pytest.raises(Conflict, match=rf"ConfigMap streams/{OF_CLICKS} has been changed by some"):
        store.swap("clicks", record(revision, epoch=9))
    with pytest.raises(Conflict, match=r"ConfigMap streams/sparkscale\.checkpoint\."):
        store.swap_claim(Claim(PLACE, "orders", "2" * 16, revision))
    assert store.read("clicks") == record(2)
    found = store.claim(PLACE)
    assert found is not None and (found.stream, found.revision) == ("clicks", 2)


def test_what_is_gone_is_not_put_back_by_who_has_seen_it(store: MapStore) -> None:
    with pytest.raises(Conflict):
        store.swap("clicks", record(2))
    assert store.read("clicks") is None


def test_of_two_that_make_a_record_at_once_one_is_refused(server: Server) -> None:
    quicker = MapStore(Client(server))
    slower = meanwhile(server, "POST", lambda: quicker.swap("clicks", record(epoch=1)))
    with pytest.raises(Conflict, match="has been changed by somebody else meanwhile"):
        slower.swap("clicks", record(epoch=2))
    assert quicker.read("clicks") == record(epoch=1)


def test_of_two_that_change_a_record_at_once_one_is_refused(
    server: Server, store: MapStore
) -> None:
    store.swap("clicks", record())
    slower = meanwhile(server, "PUT", lambda: store.swap("clicks", record(2, epoch=1)))
    with pytest.raises(Conflict, match=rf"streams/{OF_CLICKS} has been changed by somebody else"):
        slower.swap("clicks", record(2, epoch=2))
    assert store.read("clicks") == record(2, epoch=1)


def test_a_record_that_is_deleted_while_it_is_changed_is_a_conflict_and_stays_deleted(
    server: Server, store: MapStore
) -> None:
    store.swap("clicks", record())
    slower = meanwhile(server, "PUT", lambda: server.objects.clear())
    with pytest.raises(Conflict, match="has been changed by somebody else meanwhile"):
        slower.swap("clicks", record(2))
    assert store.read("clicks") is None


def test_that_there_is_no_such_namespace_is_no_conflict(server: Server) -> None:
    """Whoever has lost against somebody else tries again, or gives up his lease."""
    client = Client(server)
    client.namespace = "nowhere"
    with pytest.raises(Refused, match='namespaces "nowhere" not found') as caught:
        MapStore(client).swap("clicks", record())
    assert not isinstance(caught.value, Conflict)


def test_an_outage_is_told_as_what_it_is(server: Server, store: MapStore) -> None:
    store.swap("clicks", record())

    def outage() -> None:
        raise Unreachable("the API server gave no answer")

    with pytest.raises(Unreachable):
        meanwhile(server, "PUT", outage).swap("clicks", record(2))


def test_an_epoch_never_goes_back(store: MapStore) -> None:
    store.swap("clicks", record(epoch=5))
    back = rf"ConfigMap streams/{OF_CLICKS}: epoch 4 would go back behind 5"
    with pytest.raises(ClusterError, match=back) as caught:
        store.swap("clicks", record(2, epoch=4))
    assert not isinstance(caught.value, Conflict)
    assert store.read("clicks") == record(epoch=5)
    store.swap("clicks", record(2, epoch=5))
    # Who has not seen what is there is told that, whatever epoch he has.
    with pytest.raises(Conflict):
        store.swap("clicks", record(2, epoch=4))
    with pytest.raises(Conflict):
        store.swap("clicks", record(4, epoch=4))


def test_of_its_history_the_latest_starts_are_kept(store: MapStore) -> None:
    history = tuple(Submission(epoch, 1.0 * epoch, "manual") for epoch in range(1, HISTORY + 6))
    store.swap("clicks", record(epoch=HISTORY + 5, history=history))
    found = store.read("clicks")
    assert found is not None and found.history == history[-HISTORY:]


def test_a_listed_store_asks_for_nothing_more(server: Server, store: MapStore) -> None:
    store.swap("clicks", record(epoch=3))
    store.swap_claim(Claim(PLACE, "clicks", "1" * 16, 1))
    listed = records_of(Client(server))
    assert list(listed) == [OF_CLICKS]
    server.calls.clear()
    glanced = MapStore(Client(server), listed)
    assert glanced.streams() == ["clicks"]
    assert glanced.read("clicks") == record(epoch=3)
    assert glanced.read("orders") is None
    assert server.calls == []
    store.swap("clicks", record(2, epoch=4))
    assert glanced.read("clicks") == record(epoch=3), "as it was a moment ago"
    assert MapStore(Client(server), {}).streams() == []


def test_two_streams_whose_names_are_one_in_kubernetes_are_told_apart(store: MapStore) -> None:
    store.swap("my_clicks", record())
    said = (
        rf"streams/{names.of_record('my-clicks')} is of the stream 'my_clicks', not of 'my-clicks'"
    )
    with pytest.raises(ClusterError, match=f"{said}: rename one"):
        store.read("my-clicks")


def test_an_object_without_its_annotation_counts_by_its_own_name(
    server: Server, store: MapStore
) -> None:
    store.swap("clicks", record())
    server.objects["configmaps", OF_CLICKS]["metadata"].pop("annotations")
    assert store.streams() == [OF_CLICKS]
    with pytest.raises(ClusterError, match=f"is of the stream '{OF_CLICKS}', not of 'clicks'"):
        store.read("clicks")


@pytest.mark.parametrize("data", [{"content": "{cut"}, {"content": "{}"}, {}, None])
def test_what_can_not_be_read_is_an_error_that_says_what_to_make_certain_of(
    server: Server, store: MapStore, data: Any
) -> None:
    store.swap("clicks", record())
    store.swap_claim(Claim(PLACE, "clicks", "1" * 16, 1))
    for each in server.objects.values():
        each["data"] = data
    runs = (
        r"no driver of 'clicks' runs any more \(kubectl get pods -l "
        r"dagster-sparkscale/stream=clicks,spark-role=driver\), delete it"
    )
    with pytest.raises(
        ClusterError, match=rf"ConfigMap streams/{OF_CLICKS}: .*certain that {runs}"
    ):
        store.read("clicks")
    works = f"certain that no driver works on the checkpoint {PLACE}, delete it"
    with pytest.raises(
        ClusterError, match=rf"ConfigMap streams/{names.of_claim(PLACE)}: .*{works}"
    ):
        store.claim(PLACE)


def test_a_store_knows_this_process_and_makes_ids_of_its_own(store: MapStore) -> None:
    assert store.process() == places.this_process()
    assert not store.has_ended(store.process())
    assert store.has_ended(replace(store.process(), birth="another"))
    ids = {store.new_id() for _ in range(5)}
    assert len(ids) == 5 and {len(each) for each in ids} == {16}
