"""What docs/production.md has people state of a database server: Dagster takes it, and it helps."""

import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml
from sqlalchemy.exc import DataError, OperationalError

from dagster_sparkscale.cli.dagster_side import of_storage
from dagster_sparkscale.names import STREAM_TAG
from dagster_sparkscale.watch import reads
from dev.databases.mysql import MySQL
from dev.databases.postgres import Postgres
from tests.databases.conftest import home_of, started
from tests.watch.deployment import STREAM, Deployment, overload

pytestmark = pytest.mark.databases

PAGE = Path(__file__).parents[2] / "docs" / "production.md"


class FarAway(Postgres):
    """One whose time zone is that of its place, as a package of a distribution sets it up."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "timezone=America/New_York"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarAway]:
    with started(FarAway, tmp_path_factory.mktemp("db") / "server") as made:
        assert isinstance(made, FarAway)
        yield made


def of_the_page() -> str:
    """The `params` that the page states, as part of a dagster.yaml."""
    (block,) = re.findall(r"```yaml\n(storage:.*?)```", PAGE.read_text(), re.DOTALL)
    params = yaml.safe_load(block)["storage"]["postgres"]["postgres_db"]["params"]
    return f", params: {params}"


@dg.job
def nothing() -> None:
    pass


def made_ago(instance: dg.DagsterInstance) -> float:
    """Hours since a run was made that is made now, as Dagster has it."""
    instance.create_run_for_job(nothing)
    made = instance.get_run_records(limit=1)[0].create_timestamp.timestamp()
    return round((time.time() - made) / 3600, 1)


def test_doctor_tells_of_a_time_zone_in_which_times_are_others(
    server: FarAway, tmp_path: Path
) -> None:
    with dg.DagsterInstance.from_config(str(home_of(server, tmp_path / "home"))) as instance:
        (condition,) = of_storage(instance)
        # In summer it is -4 h. What was just made is hours old.
        assert "time zone of the Postgres server is -5 h from UTC" in condition.text
        assert made_ago(instance) in (4.0, 5.0)


def test_with_the_params_of_the_page_it_is_utc_and_what_hangs_is_given_up(
    server: FarAway, tmp_path: Path
) -> None:
    home = home_of(server, tmp_path / "home", of_the_page())
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert list(of_storage(instance)) == []
        assert made_ago(instance) == 0.0
        with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]
            (timeout,) = connection.exec_driver_sql("SHOW statement_timeout").one()
            assert timeout == "20s"
            connection.exec_driver_sql("SET statement_timeout = 50")
            with pytest.raises(OperationalError, match="statement timeout"):
                connection.exec_driver_sql("SELECT pg_sleep(600)")


def test_a_tick_ends_while_the_server_hangs_and_the_next_goes_on(
    server: FarAway, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes connections and says nothing, as one whose disk is gone."""
    monkeypatch.setattr(reads, "ANSWER", 5.0)
    process = server._process
    assert process is not None
    home = home_of(server, tmp_path / "home", of_the_page())
    with dg.DagsterInstance.from_config(str(home)) as instance:
        deployed = Deployment([STREAM], instance=instance)
        overload(deployed)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            tick = deployed.tick(stored=False)
            clock[0] += 60
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert tick.requests == []
        assert "Dagster's storage gave no answer within 5 s" in tick.data.skip_message
        (request,) = deployed.tick().requests
        assert request.tags[STREAM_TAG] == "clicks"


class InUtc(MySQL):
    ZONE = "UTC"

    def command(self) -> list[str]:
        return ["env", f"TZ={self.ZONE}", *super().command()]


class WithSummerTime(InUtc):
    ZONE = "Europe/Berlin"


@pytest.mark.parametrize("kind", [InUtc, WithSummerTime])
def test_in_the_hour_that_a_server_leaves_out_nothing_can_be_stored(
    kind: type[MySQL],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    clock: list[float],
) -> None:
    with (
        started(kind, tmp_path_factory.mktemp("db") / "server") as server,
        dg.DagsterInstance.from_config(str(home_of(server, tmp_path / "home"))) as instance,
    ):
        told = list(of_storage(instance))
        clock[0] = datetime(2026, 3, 29, 2, 30, tzinfo=UTC).timestamp()
        event = dg.AssetObservation("clicks")
        if kind is InUtc:
            assert told == []
            instance.report_runless_asset_event(event)
            return
        (condition,) = told
        assert "clock is put on in spring" in condition.text
        with pytest.raises(DataError, match="Incorrect datetime value: '2026-03-29 02:30:00'"):
            instance.report_runless_asset_event(event)


def test_other_storages_have_no_time_zone(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert list(of_storage(instance)) == []
