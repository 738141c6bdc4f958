import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.settings import RATES_FILE
from dagster_sparkscale.sources.kinesis.live_limits import heeded, live
from dagster_sparkscale.sources.kinesis.options import Connection, Limits, Options

OPTIONS = Options(Connection("clicks"), limits=Limits(records=10, duration_ms=4000))


@pytest.fixture
def rates(tmp_path, monkeypatch):
    path = tmp_path / "rates.json"
    monkeypatch.setenv(RATES_FILE, str(path))
    return path


def test_without_a_file_the_options_hold(rates, monkeypatch, caplog):
    assert live(OPTIONS) == OPTIONS.limits
    monkeypatch.delenv(RATES_FILE)
    assert live(OPTIONS) == OPTIONS.limits
    assert not caplog.records


def test_what_is_written_down_holds_from_the_next_batch_on(rates):
    written = {"maxRecordsPerTrigger": 5, "maxBytesPerTrigger": 7, "maxSpanPerTrigger": 1.5}
    rates.write_text(json.dumps({"clicks": written, "orders": {"maxRecordsPerTrigger": 1}}))
    assert live(OPTIONS) == Limits(5, 7, 1500, 4000)
    rates.write_text(json.dumps({"clicks": {"maxRecordsPerTrigger": 6}}))
    assert live(OPTIONS) == Limits(6, None, None, 4000)
    rates.write_text(json.dumps({"orders": {"maxRecordsPerTrigger": 1}}))
    assert live(OPTIONS) == OPTIONS.limits


def test_what_is_set_stands_for_the_options_and_an_estimate_beside_them(rates):
    rates.write_text(json.dumps({"clicks": {"maxRecordsPerTrigger": 500}}))
    assert live(OPTIONS).records == 500
    rates.write_text(json.dumps({"clicks": {"maxRecordsPerTrigger": 500, "estimated": True}}))
    assert live(OPTIONS).records == 10
    rates.write_text(json.dumps({"clicks": {"maxRecordsPerTrigger": 5, "estimated": True}}))
    assert live(OPTIONS).records == 5
    unlimited = Options(Connection("clicks"))
    assert live(unlimited).records == 5


def test_a_stream_that_is_not_named_has_what_all_have(rates):
    rates.write_text(json.dumps({"*": {"maxRecordsPerTrigger": 7}, "orders": {}}))
    assert live(OPTIONS).records == 7
    assert live(Options(Connection("orders"))).records is None


@pytest.mark.parametrize(
    ("records", "shards", "most"),
    [(None, 4, None), (100, 4, 100), (10, 4, 8), (3, 4, 4), (5, 0, 0)],
)
def test_a_batch_keeps_to_what_its_shards_share(records, shards, most):
    assert heeded(Limits(records=records), shards) == most


@pytest.mark.parametrize("written", ["", "{", "[]", "7", '{"clicks": 7}', '{"clicks": null}'])
def test_what_cannot_be_read_stops_no_stream(rates, written):
    rates.write_text(written)
    assert live(OPTIONS) == OPTIONS.limits


def test_what_cannot_be_read_is_told(rates, caplog):
    rates.write_bytes(b"\xff")
    with caplog.at_level(logging.WARNING):
        assert live(OPTIONS) == OPTIONS.limits
    assert f"live limits in {rates} cannot be read" in caplog.text


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=1),
)


@given(values, values, values)
def test_a_limit_is_a_number_above_nothing_or_none(tmp_path_factory, records, size, span):
    path = tmp_path_factory.mktemp("rates") / "rates.json"
    given = {
        "maxRecordsPerTrigger": records,
        "maxBytesPerTrigger": size,
        "maxSpanPerTrigger": span,
    }
    path.write_text(json.dumps({"clicks": given}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RATES_FILE, str(path))
        found = live(OPTIONS)
    for limit in (found.records, found.bytes, found.span_ms):
        assert limit is None or (type(limit) is int and limit >= 1)
    right = type(records) is int and 0 < records < 10**18
    assert (found.records == records) if right else (found.records is not None)
