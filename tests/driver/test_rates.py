"""Live limits of sources: the file they are read from, and the requests that set them."""

import http.client
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.rates import MAX_SOURCES, BadRates, Rates, rates_of
from dagster_sparkscale.driver.wire import RATES_FILE
from dagster_sparkscale.observe.status import Status
from tests.driver.serving import ask, client_of, options, serving

RECORDS, BYTES, SPAN = "maxRecordsPerTrigger", "maxBytesPerTrigger", "maxSpanPerTrigger"
RATE = "maxRate"


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    monkeypatch.setenv(RATES_FILE, "of-another-driver")
    made = Rates.prepare()
    yield made
    made.close()


def written(rates: Rates) -> Any:
    assert rates.file is not None
    return json.loads(rates.file.read_text())


def test_there_is_an_empty_file_from_the_start_for_its_user_only(rates: Rates) -> None:
    assert rates.file is not None
    assert os.environ[RATES_FILE] == str(rates.file)
    assert written(rates) == rates.current() == {}
    for path, mode in ((rates.file, 0o600), (rates.file.parent, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    rates.change({"clicks": {RECORDS: 1}})
    assert stat.S_IMODE(rates.file.stat().st_mode) == 0o600
    assert os.listdir(rates.file.parent) == [rates.file.name]


def test_what_is_set_is_told_while_a_disk_holds_the_file_up(rates: Rates) -> None:
    writes, goes_on = threading.Event(), threading.Event()

    def in_force(limits: Any) -> Any:
        writes.set()
        assert goes_on.wait(30)
        return limits

    rates.change({"clicks": {RECORDS: 1}})
    rates._in_force = in_force
    writer = threading.Thread(target=rates.keep)
    writer.start()
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(rates.current()))
    try:
        assert writes.wait(30)
        reader.start()
        reader.join(10)
        assert found == [{"clicks": {RECORDS: 1}}]
    finally:
        goes_on.set()
        writer.join()
        reader.join()


def test_without_a_file_receivers_begin_with_what_was_set() -> None:
    given: list[Any] = []

    def in_force(limits: Any) -> Any:
        given.append(limits)
        return {}

    Rates().begin({"receiver-0": {RATE: 5}}, in_force)
    assert given == [{"receiver-0": {RATE: 5}}]


def test_nothing_is_left_of_it(rates: Rates) -> None:
    assert rates.file is not None
    rates.close()
    rates.close()
    assert not rates.file.parent.exists()


def test_in_a_folder_that_is_given_it_is_all_that_goes(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    rates = Rates.prepare(tmp_path)
    assert rates.file == tmp_path / "rates.json"
    assert os.environ[RATES_FILE] == str(rates.file)
    assert stat.S_IMODE(rates.file.stat().st_mode) == 0o600
    rates.change({"clicks": {RECORDS: 1}})
    assert written(rates) == {"clicks": {RECORDS: 1}}
    rates.close()
    assert os.listdir(tmp_path) == ["token"]


def test_a_relative_folder_is_named_so_that_everybody_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Rates.prepare(Path("."))
    assert os.environ[RATES_FILE] == str(tmp_path / "rates.json")


@pytest.mark.parametrize("cleaned", ["file", "folder"])
def test_what_was_cleaned_away_is_written_again(
    rates: Rates, cleaned: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert rates.file is not None
    rates.change({"clicks": {RECORDS: 1}})
    rates.keep()
    assert "has been written again" not in "".join(capfd.readouterr())
    rates.file.unlink()
    if cleaned == "folder":
        rates.file.parent.rmdir()
    rates.keep()
    assert written(rates) == rates.current() == {"clicks": {RECORDS: 1}}
    assert stat.S_IMODE(rates.file.parent.stat().st_mode) == 0o700
    assert "was gone: it has been written again" in "".join(capfd.readouterr())


def test_a_folder_that_was_cleaned_away_does_not_keep_limits_from_being_set(rates: Rates) -> None:
    assert rates.file is not None
    rates.file.unlink()
    rates.file.parent.rmdir()
    rates.change({"clicks": {RECORDS: 1}})
    assert written(rates) == {"clicks": {RECORDS: 1}}


def test_while_the_file_is_gone_no_limit_is_told_to_be_in_force(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    rates = Rates.prepare(tmp_path / "folder")
    rates.change({"clicks": {RECORDS: 1}})
    (tmp_path / "folder").rename(tmp_path / "moved")
    with pytest.raises(OSError, match="No such file"):
        rates.keep()
    assert rates.current() == {}
    (tmp_path / "moved" / "rates.json").unlink()
    (tmp_path / "moved").rename(tmp_path / "folder")
    rates.keep()
    assert written(rates) == rates.current() == {"clicks": {RECORDS: 1}}


def test_what_others_have_put_in_the_place_of_its_folder_is_not_written_to(
    rates: Rates, tmp_path: Path
) -> None:
    assert rates.file is not None
    rates.file.unlink()
    rates.file.parent.rmdir()
    rates.file.parent.symlink_to(tmp_path)
    with pytest.raises(OSError, match="is not this user's folder any more"):
        rates.keep()
    assert os.listdir(tmp_path) == []
    rates.file.parent.unlink()


def test_once_it_has_ended_it_is_not_written_again(rates: Rates) -> None:
    assert rates.file is not None
    rates.close()
    rates.keep()
    assert not rates.file.exists()


def test_what_is_not_named_stays_and_null_removes(rates: Rates) -> None:
    rates.change({"clicks": {RECORDS: 1000, SPAN: 2.5}, "orders": {BYTES: 10**6}})
    rates.change({"clicks": {RECORDS: 500, BYTES: 7}})
    assert written(rates) == {
        "clicks": {RECORDS: 500, BYTES: 7, SPAN: 2.5},
        "orders": {BYTES: 10**6},
    }
    rates.change({"clicks": {RECORDS: None, SPAN: None}, "orders": None})
    assert written(rates) == rates.current() == {"clicks": {BYTES: 7}}
    rates.change({"clicks": {BYTES: None}, "unknown": None, "never": {SPAN: None}})
    assert written(rates) == rates.current() == {}
    rates.change({})
    assert written(rates) == {}


def test_what_is_given_out_is_a_copy(rates: Rates) -> None:
    rates.change({"clicks": {RECORDS: 1}})
    rates.current()["clicks"][RECORDS] = 2
    assert rates.current() == {"clicks": {RECORDS: 1}}


BAD = [
    (None, "rates: missing: must be an object with the limits of each source"),
    ([], "rates: []: must be an object with the limits of each source"),
    ({"clicks": 5}, "rates.clicks: 5: must be an object with limits, or null"),
    ({"": {}}, 'rates: "": a source\'s name must have 1 to 255 characters'),
    ({"x" * 256: {}}, 'rates: "' + "x" * 39 + ": a source's name must have 1 to 255 characters"),
    (
        {"clicks": {"records": 5}},
        f"rates.clicks.records: no such limit; there are {RATE}, {RECORDS}, {BYTES}, {SPAN}",
    ),
    *(
        (
            {"clicks": {name: value}},
            f"rates.clicks.{name}: {json.dumps(value)}: must be a whole number above 0, "
            "or null for no limit",
        )
        for name in (RECORDS, BYTES)
        for value in (0, -1, 1.0, 2.5, True, "5", [], {})
    ),
    *(
        (
            {"clicks": {SPAN: value}},
            f"rates.clicks.{SPAN}: {json.dumps(value)}: must be a number of seconds above 0, "
            "or null for no limit",
        )
        for value in (0, -0.5, float("nan"), float("inf"), True, "5 s", 2**63)
    ),
]


@pytest.mark.parametrize(("wanted", "text"), BAD)
def test_what_makes_no_sense_is_refused_by_field_value_and_what_is_right(
    rates: Rates, wanted: Any, text: str
) -> None:
    rates.change({"clicks": {RECORDS: 1}})
    if isinstance(wanted, dict):
        wanted = {"orders": {RECORDS: 2}, **wanted}  # all of a request is done, or nothing
    with pytest.raises(BadRates) as refused:
        rates.change(wanted)
    assert str(refused.value) == text
    assert written(rates) == rates.current() == {"clicks": {RECORDS: 1}}


@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan")])
def test_a_rate_is_a_number_of_records_per_second(rates: Rates, value: Any) -> None:
    with pytest.raises(BadRates) as refused:
        rates.change({"clicks": {RATE: value}})
    assert str(refused.value) == (
        f"rates.clicks.{RATE}: {json.dumps(value)}: must be a number of records per second above "
        "0, or null for no limit"
    )
    rates.change({"clicks": {RATE: 0.5}})
    assert rates.current() == {"clicks": {RATE: 0.5}}


@pytest.mark.parametrize("name", [RECORDS, BYTES, SPAN])
def test_a_receiver_takes_a_rate_alone(rates: Rates, name: str) -> None:
    with pytest.raises(BadRates) as refused:
        rates.change({"receiver-0": {RATE: 5, name: 5}})
    assert str(refused.value) == (
        f"rates.receiver-0.{name}: receiver-0 is the name of a receiver, which takes maxRate "
        "(records per second) alone: the others are for sources that plan batches"
    )
    for source in ("receiver-", "receiver-x", "receiver-01", "my-receiver-0"):
        rates.change({source: {name: 5}})  # names like others


def test_what_is_not_named_goes_where_the_request_states_all(
    rates: Rates, capfd: pytest.CaptureFixture[str]
) -> None:
    rates.change({"clicks": {RECORDS: 1000, SPAN: 2.5}, "orders": {BYTES: 10**6}})
    rates.change({"clicks": {RECORDS: 500}, "new": {SPAN: 1, BYTES: None}}, absolute=True)
    assert rates.current() == {"clicks": {RECORDS: 500}, "new": {SPAN: 1}}
    assert "live limits of source 'orders': none" in "".join(capfd.readouterr())
    rates.change({}, absolute=True)
    assert written(rates) == rates.current() == {}


def test_limits_to_begin_with_are_read_from_a_setting() -> None:
    text = json.dumps({"clicks": {RECORDS: 5, SPAN: None}, "orders": None, "receiver-0": {RATE: 7}})
    assert rates_of(text) == {"clicks": {RECORDS: 5}, "receiver-0": {RATE: 7}}
    with pytest.raises(BadRates, match=r"rates\.clicks: 5: must be an object"):
        rates_of('{"clicks": 5}')
    for none in ("", "{" * 5000):
        with pytest.raises(BadRates, match="it is no JSON"):
            rates_of(none)


def in_capitals(limits: Any) -> Any:
    return {source.upper(): dict(has) for source, has in limits.items()}


def test_the_file_holds_what_is_made_of_the_limits_that_are_set(rates: Rates) -> None:
    rates.begin({"clicks": {RECORDS: 5}}, in_capitals)
    assert written(rates) == {"CLICKS": {RECORDS: 5}}
    assert rates.current() == {"clicks": {RECORDS: 5}}
    rates.change({"clicks": {RECORDS: 6}})
    assert written(rates) == {"CLICKS": {RECORDS: 6}}


def test_the_file_is_written_again_when_something_else_is_in_force(rates: Rates) -> None:
    now = {"clicks": {RECORDS: 5}}
    rates.begin({}, lambda _: dict(now))
    assert rates.file is not None
    before = rates.file.stat().st_ino
    rates.keep()
    assert rates.file.stat().st_ino == before, "nothing has changed"
    now["clicks"] = {RECORDS: 6}
    rates.keep()
    assert written(rates) == {"clicks": {RECORDS: 6}}


def test_limits_that_could_not_be_written_are_in_force_nowhere(rates: Rates) -> None:
    seen: list[Any] = []

    def note(limits: Any) -> Any:
        seen.append(limits)
        return limits

    rates.begin({"clicks": {RECORDS: 1}}, note)
    rates.close()
    with pytest.raises(OSError, match="No such file"):
        rates.change({"clicks": {RECORDS: 2}})
    assert seen[-1] == {"clicks": {RECORDS: 1}}


def test_sources_are_limited_in_number(rates: Rates) -> None:
    rates.change({f"s{n}": {RECORDS: 1} for n in range(MAX_SOURCES)})
    with pytest.raises(BadRates, match="101 sources: must be at most 100"):
        rates.change({"more": {RECORDS: 1}})
    rates.change({"s0": None, "more": {RECORDS: 1}})
    assert len(written(rates)) == MAX_SOURCES


def test_a_file_that_cannot_be_written_leaves_the_limits_as_they_were(rates: Rates) -> None:
    rates.change({"clicks": {RECORDS: 1}})
    rates.close()
    with pytest.raises(OSError, match="No such file"):
        rates.change({"clicks": {RECORDS: 2}})
    assert rates.current() == {"clicks": {RECORDS: 1}}


def test_without_room_for_the_file_the_driver_runs_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(RATES_FILE, "of-another-driver")
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(tmp_path / "none"))
        rates = Rates.prepare()
    assert RATES_FILE not in os.environ
    assert "sources cannot be given live limits" in "".join(capfd.readouterr())
    with pytest.raises(OSError, match="no file for the limits"):
        rates.change({"clicks": {RECORDS: 2}})
    rates.change({"receiver-0": {RATE: 2}})  # they look nothing up
    assert rates.current() == {"receiver-0": {RATE: 2}}


def test_a_reader_never_sees_half_a_file(rates: Rates) -> None:
    def write() -> None:
        for _ in range(50):
            rates.change({f"s{n}": {RECORDS: n + 1} for n in range(MAX_SOURCES)})
            rates.change({f"s{n}": None for n in range(MAX_SOURCES)})

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert len(written(rates)) in (0, MAX_SOURCES)
    writer.join()
    assert written(rates) == {}


names = st.sampled_from(["a", "b"])
limits = st.fixed_dictionaries(
    {},
    optional={
        RECORDS: st.none() | st.integers(1, 9),
        BYTES: st.none() | st.integers(1, 9),
        SPAN: st.none() | st.floats(0.1, 9),
    },
)


@settings(deadline=None)  # it writes files
@given(st.lists(st.dictionaries(names, st.none() | limits), max_size=6))
def test_any_sequence_of_changes_leaves_what_was_said_last(changes: list[Any]) -> None:
    rates = Rates.prepare()
    try:
        said: dict[tuple[str, str], Any] = {}
        for change in changes:
            rates.change(change)
            for source, wanted in change.items():
                for name in (RECORDS, BYTES, SPAN):
                    if wanted is None:
                        said.pop((source, name), None)
                    elif name in wanted:
                        said[source, name] = wanted[name]
        flat = {(s, name): v for s, has in rates.current().items() for name, v in has.items()}
        assert flat == {key: value for key, value in said.items() if value is not None}
        assert written(rates) == rates.current()
        assert all(rates.current().values())
    finally:
        rates.close()


class TestRequests:
    """Over the real server."""

    @pytest.fixture
    def client(self, rates: Rates) -> Iterator[http.client.HTTPConnection]:
        with serving(Agent(options(), rates), lambda graceful, seconds: None) as server:
            connection = client_of(server)
            yield connection
            connection.close()

    def put(self, client: http.client.HTTPConnection, rates: Any, epoch: Any = 4) -> Any:
        return ask(client, "PUT", "/v1/rates", {"epoch": epoch, "rates": rates})

    def test_limits_are_set_and_shown_before_spark_is_there(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        assert ask(client, "GET", "/v1/status")[1]["rates"] == {}
        code, answer = self.put(client, {"clicks": {RECORDS: 9, SPAN: 0.5}})
        assert (code, answer["batches"]) == (200, [])
        assert answer["rates"] == written(rates) == {"clicks": {RECORDS: 9, SPAN: 0.5}}
        shown = ask(client, "GET", "/v1/status")[1]
        assert shown["rates"] == {"clicks": {RECORDS: 9, SPAN: 0.5}}
        assert Status.from_json(json.dumps(shown)).rates == shown["rates"]

    def test_a_request_may_state_all_that_is_to_be(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        self.put(client, {"clicks": {RECORDS: 9}, "orders": {SPAN: 0.5}})
        body = {"epoch": 4, "rates": {"clicks": {RATE: 9}}, "absolute": True}
        code, answer = ask(client, "PUT", "/v1/rates", body)
        assert (code, answer["rates"]) == (200, {"clicks": {RATE: 9}})
        code, answer = ask(client, "PUT", "/v1/rates", {**body, "absolute": "yes"})
        assert (code, answer["error"]) == (400, 'absolute: "yes": must be true or false')

    @pytest.mark.parametrize(
        ("epoch", "code", "field"),
        [(3, 409, "epoch: 3"), (5, 409, "epoch: 5"), ("4", 400, "epoch"), (None, 400, "epoch")],
    )
    def test_another_epoch_is_refused(
        self,
        client: http.client.HTTPConnection,
        rates: Rates,
        epoch: Any,
        code: int,
        field: str,
    ) -> None:
        answered, answer = self.put(client, {"clicks": {RECORDS: 9}}, epoch)
        assert answered == code
        assert answer["error"].startswith(field)
        assert answer.get("epoch") == (4 if code == 409 else None)
        assert written(rates) == {}

    @pytest.mark.parametrize(("wanted", "text"), BAD)
    def test_what_makes_no_sense_is_refused_in_words(
        self, client: http.client.HTTPConnection, wanted: Any, text: str
    ) -> None:
        assert self.put(client, wanted) == (400, {"error": text})
        assert ask(client, "GET", "/v1/status")[0] == 200  # on the same connection

    def test_a_file_that_cannot_be_written_is_said(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        rates.close()
        code, answer = self.put(client, {"clicks": {RECORDS: 9}})
        assert code == 503
        assert answer["error"].startswith("rates: they cannot be written: ")
        assert ask(client, "GET", "/v1/status")[1]["rates"] == {}

    def test_without_the_token_nothing_is_set(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        body = {"epoch": 4, "rates": {"clicks": {RECORDS: 9}}}
        assert ask(client, "PUT", "/v1/rates", body, token="wrong")[0] == 401
        assert written(rates) == {}
