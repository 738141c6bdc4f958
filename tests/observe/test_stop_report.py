"""What a driver has left of how it ended, read on Dagster's side."""

import json

import pytest

from dagster_sparkscale.driver.ending.end_report import Stopped, StoppedQuery
from dagster_sparkscale.observe.end_report import drained, read_stopped
from dagster_sparkscale.typed_json import Malformed

WRITTEN = {
    "at": 1.5,
    "graceful": True,
    "ended_itself": False,
    "queries": [{"name": "orders", "drained": False, "batch_id": 16}],
}


def test_what_was_written_is_read() -> None:
    newer = {**WRITTEN, "of_a_later_release": 1}
    query = StoppedQuery("orders", False, 16)
    assert read_stopped(json.dumps(newer)) == Stopped(1.5, True, False, (query,))


@pytest.mark.parametrize(
    ("queries", "ended_itself", "is_drained"),
    [
        ((True,), True, True),
        ((True, True), False, True),  # the program was ended after its queries
        ((True, False), True, False),
        ((None, False), True, False),
        ((True, None), True, None),
        ((), True, None),  # what the driver before it had left may be there still
        ((), False, None),  # what it was doing is not known
    ],
)
def test_what_is_drained_is_all_of_it(
    queries: tuple[bool | None, ...], ended_itself: bool, is_drained: bool | None
) -> None:
    told = tuple(StoppedQuery("q", each) for each in queries)
    assert drained(Stopped(1.5, True, ended_itself, told)) is is_drained


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"graceful": None}, "graceful: missing"),
        ({"ended_itself": "yes"}, "ended_itself = 'yes': must be"),
        ({"queries": [{"name": 3}]}, "name = 3: must be str"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, object], said: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_stopped(json.dumps({**WRITTEN, **changed}))
    assert str(refused.value).startswith(said)
