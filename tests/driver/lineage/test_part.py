"""The part of the agent, without Spark: whose runs those of OpenLineage's listener become."""

import json

from dagster_sparkscale.driver.lineage.events import run_id
from dagster_sparkscale.driver.lineage.part import LineagePart
from dagster_sparkscale.driver.lineage.plan import LineagePlan
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.settings import LINEAGE, LINEAGE_RECORD
from tests.driver.serving import options

DECLARED = {
    LINEAGE: json.dumps(LineagePlan("http://m/api", "prod", "orders").as_texts()),
    LINEAGE_RECORD: "record",
}


def test_the_listener_of_openlineage_learns_whose_runs_its_own_are():
    part = LineagePart(Core(options()))
    for whose in ("parent", "rootParent"):
        found = part.properties(DECLARED)
        assert found[f"spark.openlineage.{whose}RunId"] == run_id("record", options().epoch)
        assert found[f"spark.openlineage.{whose}JobName"] == "orders"
        assert found[f"spark.openlineage.{whose}JobNamespace"] == "prod"


def test_what_a_program_says_of_its_parent_stands():
    part = LineagePart(Core(options()))
    assert part.properties({**DECLARED, "spark.openlineage.parentRunId": "another"}) == {}


def test_without_lineage_nothing_is_set_and_nothing_told():
    part = LineagePart(Core(options()))
    assert part.properties({}) == {}
    assert part.ended("completed", None) == {}
