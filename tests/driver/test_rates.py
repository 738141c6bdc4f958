"""Live limits of sources: how they are changed, and what makes no sense."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.rates import MAX_SOURCES, BadRates, Rates, rates_of
from tests.driver.limiting import BAD, BYTES, RATE, RECORDS, SPAN, written


def test_without_a_file_receivers_begin_with_what_was_set() -> None:
    given: list[Any] = []

    def in_force(limits: Any) -> Any:
        given.append(limits)
        return {}

    Rates().begin({"receiver-0": {RATE: 5}}, in_force)
    assert given == [{"receiver-0": {RATE: 5}}]


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


def test_sources_are_limited_in_number(rates: Rates) -> None:
    rates.change({f"s{n}": {RECORDS: 1} for n in range(MAX_SOURCES)})
    with pytest.raises(BadRates, match="101 sources: must be at most 100"):
        rates.change({"more": {RECORDS: 1}})
    rates.change({"s0": None, "more": {RECORDS: 1}})
    assert len(written(rates)) == MAX_SOURCES


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
