"""A stream with a calendar, in a whole deployment: what the sensor does, says and shows."""

from datetime import UTC, datetime, timedelta

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.calendar import Calendar, Window
from tests.fakes import structured
from tests.watch.deployment import Deployment, overload


def test_bounds_of_a_person_stand_in_place_of_the_calendars(clock, capfd):
    begins = datetime.fromtimestamp(clock[0], UTC)
    cron = f"{begins.minute} {begins.hour} * * *"
    window = Window(cron=cron, duration="1 h", bounds=(1, 2), reason="afternoon")
    policy = RatioPolicy(max_executors=10)
    deployed = Deployment([structured(autoscale=policy, calendar=Calendar(windows=(window,)))])
    assert deployed.by_hand("steer", stream="clicks", action="bounds", maximum=5).success
    said = capfd.readouterr().err
    assert "in place of: bounds of at least 1 and at most 2 executors set by calendar" in said
    assert "ended: " not in said


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
