"""A stream with a calendar, in a whole deployment: what the sensor does, says and shows."""

from datetime import UTC, datetime, timedelta

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.calendar import Calendar, Window
from tests.fakes import structured
from tests.watch.deployment import Deployment, overload


def test_a_freeze_begins_and_ends_by_itself_and_shows_what_follows(clock):
    begins = datetime.fromtimestamp(clock[0], UTC) + timedelta(minutes=2)
    cron = f"{begins.minute} {begins.hour} * * *"
    closing = Window(cron=cron, duration="3 min", freeze=True, reason="closing")
    stream = structured(
        autoscale=RatioPolicy(max_executors=10), calendar=Calendar(windows=(closing,))
    )
    deployed = Deployment([stream])
    overload(deployed, stream)
    ticks = deployed.passing(7, clock)
    assert [bool(tick.requests) for tick in ticks] == [True, True, False, False, False, True, True]
    said = ticks[2].decided()
    assert said.startswith("hold: frozen by calendar until ")
    assert "(closing), the policy would go to 5" in said
    (event,) = ticks[2].told()
    page = event.metadata["steering"].value
    assert "frozen by calendar until" in page and "on: as declared" in page
    (before,) = ticks[0].told()
    assert "on: frozen by calendar until" in before.metadata["steering"].value
