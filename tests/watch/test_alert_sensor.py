"""The alert sensor in a deployment, against an address that is down at first."""

import time
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin

from dagster_sparkscale import DeclarationError, SlackWebhook, Webhook, alert_sensor, build_defs
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.watch import reads as reads_module
from dagster_sparkscale.watch.alerts import sensor as alert_sensor_module
from dagster_sparkscale.watch.alerts.alerts import AFTER, AlertMemory
from dagster_sparkscale.watch.fleet.events import fleet_key, observation
from dagster_sparkscale.watch.fleet.rows import SETTLED
from tests.fakes import scaled
from tests.in_memory.cluster import World
from tests.watch.deployment import Deployment
from tests.watch.hook_server import SECRET, free_port, serving
from tests.watch.test_reads import hanging

HOOK = Webhook("http://127.0.0.1:9/")


class Alerts:
    """A deployment and its sensors, on a clock that goes only while one watches."""

    def __init__(self, webhook: Webhook, clock: list[float], **options) -> None:
        self.deployed = Deployment([scaled("clicks"), scaled("orders")])
        self.sensor = alert_sensor(webhook, **options)
        self.cursor: str | None = None
        self.clock = clock

    def watch(self) -> None:
        """A minute passes, and a tick of the autoscaler."""
        self.clock[0] += 60
        for event in self.deployed.tick().data.asset_events:
            if isinstance(event, dg.AssetObservation):
                self.deployed.instance.report_runless_asset_event(event)

    def settle(self) -> None:
        """As many as a new driver needs to count as one that stays."""
        for _ in range(int(SETTLED // 60) + 1):
            self.watch()

    def tick(self) -> str:
        """A tick of the alerts; what it says."""
        with dg.build_sensor_context(
            instance=self.deployed.instance, definitions=self.deployed.defs, cursor=self.cursor
        ) as context:
            data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        assert SECRET not in f"{data.skip_message} {AlertMemory.load(data.cursor)}"
        return data.skip_message


def test_an_address_that_is_down_then_in_trouble_then_up_gets_every_alert_once(clock):
    port = free_port()
    alerts = Alerts(Webhook(f"http://127.0.0.1:{port}/{SECRET}"), clock)
    world = alerts.deployed.world
    for stream in alerts.deployed.streams:
        world.run(stream)
    alerts.watch()
    assert alerts.tick() == "Sent: 0. Problems that people know of: 0."
    world.end("clicks")
    alerts.watch()
    down = (
        "Sent: 0. Problems that people know of: 1. Alerts that wait: 1, for no connection: nobody "
        "is there, or its name is not known; they are sent again."
    )
    assert alerts.tick() == down
    assert alerts.tick() == down
    world.end("orders")
    alerts.watch()
    with serving(port) as server:
        server.answers = [500, 503, 429]
        for code in (500, 503, 429):
            assert f"Alerts that wait: 2, for the address answers {code}; they" in alerts.tick()
        assert alerts.tick() == "Sent: 2. Problems that people know of: 2."
        assert alerts.tick() == "Sent: 0. Problems that people know of: 2."
        with world.cluster.lease("clicks", "test") as lease:
            world.submit(scaled("clicks"), lease)
        alerts.watch()
        assert alerts.tick() == "Sent: 0. Problems that people know of: 2."
        alerts.settle()
        assert alerts.tick() == "Sent: 1. Problems that people know of: 1."
        assert [(one["status"], one["stream"], one["problem"]) for one in server.got] == [
            ("problem", "clicks", "failed"),
            ("problem", "orders", "failed"),
            ("resolved", "clicks", "failed"),
        ]


def test_who_wants_problems_alone_is_not_told_that_one_is_over(clock):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock, tell_resolved=False)
        world = alerts.deployed.world
        for failure in (1, 2):
            world.run(scaled("clicks"))
            alerts.settle()
            assert alerts.tick() == "Sent: 0. Problems that people know of: 0."
            world.end("clicks")
            alerts.watch()
            assert alerts.tick() == "Sent: 1. Problems that people know of: 1."
            assert [one["status"] for one in server.got] == ["problem"] * failure


def test_an_address_that_refuses_is_said_plainly_and_not_asked_for_ever(clock, capfd):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks")
        alerts.watch()
        server.answers = [404] * 10
        assert "Alerts that wait: 1, for the address answers 404; they" in alerts.tick()
        assert "Alerts that wait: 1, for the address answers 404; they" in alerts.tick()
        assert "is dropped" not in capfd.readouterr().err
        assert alerts.tick() == (
            "Sent: 0. Problems that people know of: 1. Dropped, for the address answers 404."
        )
        assert "An alert is dropped, for the address answers 404: " in capfd.readouterr().err
        assert alerts.tick() == "Sent: 0. Problems that people know of: 1."
        assert len(server.answers) == 7
        server.answers = []
        alerts.deployed.world.end("clicks", DriverState.STOPPED)
        alerts.deployed.world.run(scaled("orders"))
        alerts.deployed.world.end("orders")
        alerts.watch()
        assert alerts.tick() == "Sent: 1. Problems that people know of: 1."
        assert [(one["id"][:6], one["dropped_before"]) for one in server.got] == [("orders", 1)]


def test_only_what_lasts_is_told(clock):
    with serving() as server:
        after = {"pinned": None, "failed": "10 min"}
        alerts = Alerts(Webhook(server.url), clock, after=after)
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks", ended_at=time.time() + 1e6)
        for _ in range(10):
            alerts.watch()
            alerts.tick()
        assert not server.got
        alerts.watch()
        alerts.tick()
        assert [one["status"] for one in server.got] == ["problem"]


def test_an_autoscaler_that_is_switched_off_is_told_of(clock):
    with serving() as server:
        alerts = Alerts(SlackWebhook(server.url), clock)
        alerts.watch()
        clock[0] += AFTER["unwatched"] + 1
        alerts.tick()
        assert server.got[0]["text"].startswith(":rotating_light: fleet is not watched: the autosc")
        alerts.watch()
        alerts.tick()
        assert server.got[1]["text"].startswith(":white_check_mark: fleet: resolved after")


NOT_YET = "Nothing has been told of the fleet yet: the sensor autoscaler does that."


def test_an_autoscaler_that_was_never_on_is_told_of(clock):
    with serving() as server:
        alerts = Alerts(SlackWebhook(server.url), clock)
        assert alerts.tick() == NOT_YET
        clock[0] += AFTER["unwatched"] - 1
        assert alerts.tick() == NOT_YET
        clock[0] += 1
        assert alerts.tick() == f"{NOT_YET} Sent: 1. Problems that people know of: 1."
        assert alerts.tick() == f"{NOT_YET} Sent: 0. Problems that people know of: 1."
        alerts.watch()
        assert alerts.tick() == "Sent: 1. Problems that people know of: 0."
        problem, over = (one["text"] for one in server.got)
        assert problem.startswith(":rotating_light: fleet is not watched: the autoscaler has told ")
        assert over.startswith(":white_check_mark: fleet: resolved after 31 min; it was not w")


@pytest.mark.parametrize(
    ("keys", "there_is"), [(["west", "east"], "there is 'east', 'west'"), ([], "there is none")]
)
def test_a_cluster_that_there_is_not_is_refused_with_those_that_there_are(keys, there_is):
    sensor = alert_sensor(HOOK, cluster_key="wset")
    fleets = [build_defs([scaled(f"in_{key}")], World().cluster, cluster_key=key) for key in keys]
    defs = dg.Definitions.merge(*fleets, dg.Definitions(sensors=[sensor]))
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, definitions=defs) as context,
        pytest.raises(DeclarationError) as refused,
    ):
        sensor(context)
    assert str(refused.value) == (
        "cluster_key = 'wset': must be that of a build_defs in this code location; " + there_is
    )


def test_a_fleet_of_another_cluster_is_not_ours(clock):
    alerts = Alerts(HOOK, clock)
    alerts.watch()
    theirs = [{"stream": "x", "problem": "failed", "since": 1.0, "text": "", "page": ""}]
    event = observation(fleet_key("west"), [], theirs, "", time.time())
    alerts.deployed.instance.report_runless_asset_event(event)
    assert alerts.tick() == "Sent: 0. Problems that people know of: 0."


def test_a_fleet_of_the_same_name_in_another_code_location_is_not_ours(clock):
    alerts = Alerts(HOOK, clock)
    alerts.watch()
    foreign = [{"stream": "x", "problem": "failed", "since": 1.0, "text": "", "page": ""}]
    for _ in range(3):
        event = observation(fleet_key("spark_cluster"), [], foreign, "shop/x", time.time())
        alerts.deployed.instance.report_runless_asset_event(event)
    assert alerts.tick() == "Sent: 0. Problems that people know of: 0."


def test_the_fleet_of_its_own_code_location_is(clock, monkeypatch):
    shop = RegisteredCodeLocationOrigin("shop")
    monkeypatch.setattr(dg.SensorEvaluationContext, "code_location_origin", shop)
    alerts = Alerts(Webhook("http://127.0.0.1:9/"), clock)
    ours = [{"stream": "x", "problem": "failed", "since": 1.0, "text": "", "page": ""}]
    for owner, problems in (("shop/spark_cluster", ours), ("", []), ("shop/west", [])):
        event = observation(fleet_key("spark_cluster"), [], problems, owner, time.time())
        alerts.deployed.instance.report_runless_asset_event(event)
    assert "Problems that people know of: 1." in alerts.tick()


def test_an_observation_that_cannot_be_read_is_passed_over(clock):
    alerts = Alerts(HOOK, clock)
    alerts.watch()
    odd = dg.AssetObservation("fleet", metadata={"for alerts": '<!--{"at": "noon"}-->'})
    for event in (dg.AssetObservation("fleet"), odd):
        alerts.deployed.instance.report_runless_asset_event(event)
    assert alerts.tick() == "Sent: 0. Problems that people know of: 0."


HALF = "no such file /data/caf\udce9"


def test_half_a_character_is_told_once_and_holds_up_nobody(clock):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        for stream in alerts.deployed.streams:
            alerts.deployed.world.run(stream)
            alerts.deployed.world.end(stream.name, exit_reason=HALF)
        alerts.watch()
        alerts.tick()
        assert alerts.tick() == "Sent: 0. Problems that people know of: 2."
        assert [one["stream"] for one in server.got] == ["clicks", "orders"]
        assert "/data/caf?" in server.got[0]["text"]


def test_half_a_character_that_is_stored_already_is_told_once(clock):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        stored = [{"stream": "x", "problem": "failed", "since": 1.0, "text": HALF, "page": ""}]
        event = observation(fleet_key("spark_cluster"), [], stored, "", time.time())
        alerts.deployed.instance.report_runless_asset_event(event)
        alerts.tick()
        assert alerts.tick() == "Sent: 0. Problems that people know of: 1."
        assert [one["text"][-10:] for one in server.got] == ["/data/caf?"]


def test_what_cannot_be_remembered_is_not_sent(clock, monkeypatch):
    def fails(memory):
        raise ValueError("no room")

    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks")
        alerts.watch()
        monkeypatch.setattr(AlertMemory, "dump", fails)
        with pytest.raises(ValueError, match="no room"):
            alerts.tick()
        assert not server.got


def test_a_tick_ends_though_much_waits(clock, monkeypatch):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks")
        alerts.watch()
        monkeypatch.setattr(alert_sensor_module, "SENDING", 0.0)
        assert alerts.tick() == "Sent: 0. Problems that people know of: 1. Alerts that wait: 1."
        assert not server.got


def test_a_tick_ends_though_dagsters_storage_hangs(clock, monkeypatch):
    monkeypatch.setattr(reads_module, "ANSWER", 3.0)
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock)
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks")
        alerts.watch()
        with (
            hanging(alerts.deployed.instance, "fetch_observations"),
            pytest.raises(NoAnswer, match="Dagster's storage gave no answer within 3 s"),
        ):
            alerts.tick()
        assert alerts.tick().startswith("Sent: 1.")


def test_it_stands_beside_the_streams_of_its_cluster():
    world = World()
    streams = [scaled("clicks")]
    defs = dg.Definitions.merge(
        build_defs(streams, world.cluster, cluster_key="west"),
        dg.Definitions(
            sensors=[alert_sensor(HOOK, cluster_key="west"), alert_sensor(HOOK, name="B_2")]
        ),
    )
    dg.Definitions.validate_loadable(defs)
    assert {sensor.name for sensor in defs.sensors} == {"autoscaler_west", "alerts_west", "B_2"}
    assert {sensor.default_status for sensor in defs.sensors} == {dg.DefaultSensorStatus.RUNNING}


def test_it_may_begin_switched_off():
    sensor = alert_sensor(HOOK, default_status=dg.DefaultSensorStatus.STOPPED)
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert (sensor.name, sensor.minimum_interval_seconds) == ("alerts", 30)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"after": {"dead": 5}}, "after: no problem is 'dead'; there is failed, given_up, losing"),
        ({"after": {"failed": "soon"}}, "after['failed'] = 'soon': must be seconds or a duration"),
        ({"after": {"faild": 5}}, "after: no problem is 'faild'; did you mean 'failed'? there is"),
        ({"after": {"failed": -5}}, "after['failed'] = -5: must not be negative"),
        ({"after": {"failed": float("inf")}}, "after['failed'] = inf: must not be negative, and"),
        ({"after": {"failed": float("nan")}}, "after['failed'] = nan: must not be negative"),
        ({"after": {"unwatched": 60}}, "after['unwatched'] = 60: must be at least 20 min: a fleet"),
        ({"after": "5 min"}, "after = '5 min': must be a dict, such as "),
        ({"after": False}, "after = False: must be a dict, such as "),
        ({"tell_resolved": "no"}, "tell_resolved = 'no': must be True or False"),
        ({"cluster_key": "a b"}, "cluster_key = 'a b': must be letters, digits and underscores"),
        ({"cluster_key": None}, "cluster_key = None: must be letters, digits and underscores"),
        ({"name": "my alerts"}, "name = 'my alerts': must be letters, digits and underscores"),
        ({"name": 5}, "name = 5: must be letters, digits and underscores"),
        ({"default_status": "RUNNING"}, "default_status = 'RUNNING': must be a dagster.Default"),
        ({"webhook": "https://x/hunter2"}, "webhook: a str; must be a Webhook or a SlackWebhook"),
    ],
)
def test_what_makes_no_sense_is_refused(given, fault):
    with pytest.raises(DeclarationError) as refused:
        alert_sensor(**{"webhook": HOOK} | given)
    assert str(refused.value).startswith(fault)


@pytest.mark.parametrize(
    ("args", "given", "fault"),
    [
        (
            *((HOOK,), {"dagster_url": "https://x"}),
            "dagster_url: no such argument; it is one of the webhook, such as SlackWebhook(url, "
            "dagster_url=...)",
        ),
        ((), {"url": "https://x"}, "url: no such argument; give a webhook, such as alert_sensor("),
        ((), {}, "webhook: missing; such as SlackWebhook(dg.EnvVar("),
        ((HOOK,), {"nam": "x"}, "nam: no such argument; did you mean 'name'? there is webhook, "),
        ((HOOK, {}), {}, "2 arguments without a name; give those after webhook by their names"),
        ((HOOK,), {"webhook": HOOK}, "webhook: given twice"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_in_the_same_way(args, given, fault):
    with pytest.raises(DeclarationError) as refused:
        alert_sensor(*args, **given)
    assert str(refused.value).startswith(f"alert_sensor: {fault}")


@pytest.mark.parametrize("at_once", [0, 0.5])
def test_a_problem_may_be_told_at_once(clock, at_once):
    with serving() as server:
        alerts = Alerts(Webhook(server.url), clock, after={"failed": at_once})
        alerts.deployed.world.run(scaled("clicks"))
        alerts.deployed.world.end("clicks", ended_at=time.time() + 1e6)
        alerts.watch()
        alerts.tick()
        alerts.watch()
        alerts.tick()
        assert [one["problem"] for one in server.got] == ["failed"]


def test_nobody_is_told_of_what_is_switched_off(clock):
    alerts = Alerts(HOOK, clock, after={"failed": None})
    alerts.deployed.world.run(scaled("clicks"))
    driver = alerts.deployed.world.streams["clicks"].driver
    alerts.deployed.world.streams["clicks"].driver = replace(driver, state=DriverState.FAILED)
    alerts.watch()
    assert alerts.tick() == "Sent: 0. Problems that people know of: 0."
