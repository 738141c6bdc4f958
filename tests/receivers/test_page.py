"""What a stream's page says of its receivers: short, true, shown as it was written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.markdown import INLINE
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Executor, Receiver, Relaunch
from dagster_sparkscale.receivers.page import last_relaunch, of_receivers, of_relaunches
from tests.fakes import batch, status
from tests.receivers.streams import receiving, spread_over
from tests.watch.deployment import Deployment
from tests.watch.reader import written

HEAD = "|receiver|executor|records/s|\n|-|-|-|\n"
AWAY = "|when\u00a0(UTC)|receiver|executors|away (s)|\n|-|-|-|-|\n"
AT = 1_700_000_000.0
ONE = Receiver(0, "SocketReceiver", "1", "worker-1", AT, rate=1234.5)
MOVED = Relaunch(2, "move", "0", AT, "3", wanted="3", away_seconds=1.26)


def shown(*receivers: Receiver) -> str:
    executors = (Executor("1", "h", 4), Executor("2", "h", 4))
    return of_receivers(status(now=AT + 60, receivers=receivers, executors=executors))


def test_where_there_are_none_there_is_nothing() -> None:
    assert of_receivers(None) == of_relaunches(None) == last_relaunch(None) == ""
    assert of_receivers(status(receivers=None)) == of_receivers(status(receivers=())) == ""
    assert of_relaunches(status()) == last_relaunch(status()) == ""


def test_a_line_a_receiver_and_how_many_each_executor_has() -> None:
    other = Receiver(1, executor="1", host="a|b", error="Connection refused")
    assert shown(ONE, other) == (
        f"{HEAD}|0 SocketReceiver |1 on worker-1 since 22:13 |1,234|\n"
        "|1 |1 on a\\|b |-|\n\nreceivers of executors: \\[2, 0\\]\n\n"
        "last error of receiver 1: Connection refused"
    )


def test_the_host_that_all_have_is_left_out() -> None:
    other = replace(ONE, stream_id=1, since=None)
    assert shown(ONE, other).startswith(
        f"{HEAD}|0 SocketReceiver |1 since 22:13 |1,234|\n|1 SocketReceiver |1 |1,234|\n"
    )


def test_of_many_errors_it_shows_one_and_how_many_more() -> None:
    failed = [replace(ONE, stream_id=n, error=f"no route {n}") for n in (3, 4, 5)]
    assert shown(ONE, *failed).endswith(
        "last error of receiver 3 (and 2 more have failed): no route 3"
    )


def test_the_error_of_one_that_is_away_goes_before_that_of_one_that_runs_again() -> None:
    again, away = replace(ONE, error="long ago"), Receiver(4, error="no route")
    assert shown(again, away).endswith(
        "last error of receiver 4 (and 1 more have failed): no route"
    )


def test_one_that_is_away_stands_out() -> None:
    assert "|**nowhere** |" in shown(Receiver(0))
    assert "|**nowhere** (on its way to 2) |" in shown(Receiver(0, moving_to="2"))
    assert "|1 since 22:13 (on its way to 2) |" in shown(replace(ONE, moving_to="2"))


def test_of_many_it_says_how_many_more_there_are() -> None:
    assert " more receivers\n\nreceivers of executors" in shown(*[ONE] * 60)
    many = [replace(MOVED, cause="|" * 20, from_executor="|" * 40, to_executor="|" * 40)] * 50
    assert of_relaunches(status(relaunches=tuple(many))).endswith(" more of the last 10")


def test_the_latest_that_were_away_the_newest_first() -> None:
    lost = Relaunch(1, "executor lost", "7", AT + 60)
    elsewhere = replace(MOVED, to_executor="4", began_at=AT - 86400, away_seconds=None)
    told = of_relaunches(status(now=AT + 120, relaunches=(elsewhere, MOVED, lost)))
    assert told == (
        f"{AWAY}|22:14|1|7 \u2192 **nowhere**, executor lost |-|\n"
        "|22:13|2|0 \u2192 3, move |1.3|\n"
        "|11-13 22:13|2|0 \u2192 4 (sent to 3), move |-|"
    )


def test_the_last_one_that_is_back_is_news() -> None:
    late = replace(MOVED, stream_id=1, began_at=AT + 60, cause="executor lost")
    away = replace(late, to_executor=None, began_at=AT + 90)
    assert last_relaunch(status(relaunches=(late, MOVED, away))) == (
        "receiver 1: executor 0 -> 3 (executor lost, 2023-11-14 22:14 UTC)"
    )
    assert last_relaunch(status(relaunches=(replace(MOVED, from_executor=None),))).startswith(
        "receiver 2: executor - -> 3 (move"
    )


texts = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=200)


@given(
    st.lists(
        st.builds(
            Receiver,
            stream_id=st.integers(0, 10**6),
            name=st.none() | texts,
            executor=st.none() | texts,
            host=st.none() | texts,
            since=st.none() | st.floats(0, 1e12),
            moving_to=st.none() | texts,
            rate=st.none() | st.floats(0, 1e12),
            error=st.none() | texts,
        ),
        min_size=1,
        max_size=40,
    ),
    st.lists(
        st.builds(
            Relaunch,
            stream_id=st.integers(0, 10**6),
            cause=texts,
            from_executor=st.none() | texts,
            began_at=st.floats(0, 1e12),
            to_executor=st.none() | texts,
            wanted=st.none() | texts,
            away_seconds=st.none() | st.floats(0, 1e6),
        ),
        min_size=1,
        max_size=50,
    ),
)
def test_it_is_shown_in_place_whatever_the_names(
    receivers: list[Receiver], relaunches: list[Relaunch]
) -> None:
    told = status(receivers=tuple(receivers), relaunches=tuple(relaunches))
    for text, head in ((of_receivers(told), HEAD), (of_relaunches(told), AWAY)):
        assert len(text) <= INLINE and text.startswith(head)
        assert "html_inline" not in written(text)[1]


class TestOfADeployment:
    @pytest.fixture
    def deployed(self) -> Deployment:
        it = Deployment([receiving()])
        spread_over(it.world, receiving(), (2, 2, 1), batch_seconds=5.0)
        return it

    def test_its_overview_shows_them_and_the_minute_counts_them(self, deployed: Deployment) -> None:
        tick = deployed.tick()
        [event] = tick.told()
        assert event.metadata["receivers"].value.startswith(HEAD)
        assert "receivers away" not in event.metadata
        assert event.metadata["8. receivers"].value == 5
        assert tick.seen().receivers == 5

    def test_one_that_was_away_is_told_of_at_once(self, deployed: Deployment) -> None:
        deployed.tick()
        deployed.tick()
        kept = deployed.world.streams["clicks"]
        kept.relaunches = (MOVED,)
        [event] = deployed.tick().told()
        assert event.description == "receiver 2: executor 0 -> 3 (move, 2023-11-14 22:13 UTC)"
        assert event.metadata["receivers away"].value.startswith(AWAY)
        assert deployed.tick().told() == [], "once"

    def test_one_that_does_not_come_back_fails_the_check(self, deployed: Deployment) -> None:
        deployed.tick()
        kept = deployed.world.streams["clicks"]
        first, *others = kept.receivers or ()
        kept.receivers = (replace(first, executor=None), *others)
        kept.relaunches = (Relaunch(0, "executor lost", "0", 0.0),)
        kept.batches = (batch(5.0, now=kept.driver.submitted_at + 3600),)
        assert deployed.tick().checks()[Health.BATCHES_COMPLETING.value] is False
