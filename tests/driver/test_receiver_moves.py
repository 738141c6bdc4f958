"""Sending a receiver while Spark itself changes what it has stored of it.

What goes well is tried on a real cluster (`test_receivers.py`).
"""

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.receivers import moves
from dagster_sparkscale.driver.receivers.moves import MANGLED, TRIES, send


class Option:
    def __init__(self, value: Any) -> None:
        self._value = value

    def isDefined(self) -> bool:
        return self._value is not None

    def get(self) -> Any:
        return self._value


class Endpoint:
    def __init__(self, stopped: list[str], launch: str) -> None:
        self._stopped, self._launch = stopped, launch

    def send(self, message: str) -> None:
        assert message == "stop"
        self._stopped.append(self._launch)


class Tracker:
    """Of Spark: what it has stored of one receiver. `meanwhile` happens after each change of its
    locations, before anybody can look."""

    def __init__(self, *meanwhile: str) -> None:
        self._meanwhile = list(meanwhile)
        self.launch, self.executor, self.locations, self.active = "first", "1", None, True
        self.stopped: list[str] = []
        self.updates = 0
        setattr(self, f"{MANGLED}updateReceiverScheduledExecutors", self._update)

    def _update(self, stream: int, locations: Any) -> None:
        assert (stream, locations) == (3, ["host/2"])
        self.updates += 1
        self.locations, self.active = locations, False
        match self._meanwhile.pop(0) if self._meanwhile else "nothing":
            case "fails":  # `reportError` puts back what it had read before
                self.locations, self.active = None, True
            case "comes up there":
                self.launch, self.executor = "second", "2"
                self.locations, self.active = None, True

    def info(self) -> Any:
        launch = self.launch
        told = SimpleNamespace(active=lambda: self.active, executorId=lambda: self.executor)
        return SimpleNamespace(
            scheduledLocations=lambda: Option(self.locations),
            endpoint=lambda: Option(Endpoint(self.stopped, launch)),
            toReceiverInfo=lambda: told,
        )


def sent(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which starts of the receiver are told to stop."""
    monkeypatch.setattr(moves, "_infos", lambda *_: SimpleNamespace(apply=lambda _: tracker.info()))
    names = SimpleNamespace(
        scheduler=SimpleNamespace(ExecutorCacheTaskLocation=lambda host, id: f"{host}/{id}"),
        streaming=SimpleNamespace(
            receiver=SimpleNamespace(**{"StopReceiver$": SimpleNamespace(**{"MODULE$": "stop"})})
        ),
    )
    view = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=names)),
        PythonUtils=SimpleNamespace(toSeq=list),
    )
    jvm: Any = SimpleNamespace(view=view)
    send(jvm, tracker, 3, "host", "2")
    return tracker.stopped


def test_it_is_told_to_stop_once_its_place_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(Tracker(), monkeypatch) == ["first"]


def test_what_spark_has_overwritten_is_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("fails")
    assert sent(tracker, monkeypatch) == ["first"]
    assert (tracker.updates, tracker.locations) == (2, ["host/2"])


def test_one_that_has_just_come_up_there_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark forgets its place as it registers: it would come up anywhere then."""
    assert sent(Tracker("comes up there"), monkeypatch) == []


def test_without_its_place_it_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker(*["fails"] * (TRIES + 1))
    assert sent(tracker, monkeypatch) == []
    assert tracker.updates == TRIES
