"""A real driver that is killed, on a real cluster: its run ends once, as failed."""

import time

import pytest

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.driver.lineage.events import run_id
from dagster_sparkscale.lineage.ends import EndTeller
from tests.clusters import running
from tests.clusters.client_mode import note
from tests.driver.lineage.receiving import receiving
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def test_the_end_of_a_killed_driver_is_told_by_dagster(local_cluster: LocalCluster):
    name = "lineage_killed"
    with receiving() as server:
        lineage = Lineage(url=server.url, namespace="prod", every=1)
        stream = running.stream(name, lineage=lineage, recovery=None)
        running.submit(local_cluster, stream)
        try:
            wait_for("START and RUNNING", lambda: len(server.events) > 1, 120)
            started = running.newest(local_cluster, name)
            assert started.record is not None
            run = run_id(started.record.id, started.epoch)
            running.kill(note(local_cluster, started, "driver.json")["pid"])

            def ended() -> bool:
                return running.newest(local_cluster, name).state is DriverState.FAILED

            wait_for("its end to be seen", ended, 120)
            assert set(server.kinds(run)) == {"START", "RUNNING"}
            teller, learned = EndTeller(), {}

            def told() -> bool:
                nonlocal learned
                found = running.newest(local_cluster, name)
                situation = Situation(stream, time.time(), found, learned=learned)
                learned = {**learned, **teller.see(situation)}
                return bool(learned)

            wait_for("it to be told", told)
            assert told()
            assert server.kinds(run).count("FAIL") == 1 == server.kinds().count("FAIL")
            assert server.kinds(run)[-1] == "FAIL" and server.kinds() == server.kinds(run)
        finally:
            running.see_ended(local_cluster, name)
