"""The end of a driver, without Spark: from its report to the server and to Dagster's side."""

import json
from pathlib import Path
from types import SimpleNamespace

from dagster_sparkscale.clusters.host.folders import SubmissionFolder
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.ending.end_report import LineageEnd
from dagster_sparkscale.driver.ending.reporter import EndReporter
from dagster_sparkscale.driver.lineage.part import LineagePart
from dagster_sparkscale.driver.lineage.plan import LineagePlan
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.settings import LINEAGE
from tests.driver.lineage.receiving import receiving
from tests.driver.serving import options


def test_what_the_driver_told_of_its_end_is_what_dagster_reads(tmp_path: Path):
    with receiving() as server:
        plan = LineagePlan(server.url, "prod", "orders")
        settings = {LINEAGE: json.dumps(plan.as_texts())}
        context = SimpleNamespace(
            version="4.3.0",
            getConf=lambda: SimpleNamespace(getAll=settings.items),
            _jsc=SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "file:///"}),
        )
        core = Core(options())
        part = LineagePart(core)
        agent, reporter = Agent(core, (part,)), EndReporter(tmp_path / "agent.json")
        part.begin(context)
        part.start()
        reporter.raised("ValueError: no such topic")
        reporter.over(**agent.ended(*reporter.report.outcome(1)))
        assert server.kinds()[-1] == "FAIL"
        error = server.events[-1]["run"]["facets"]["errorMessage"]
        assert error["message"] == "ValueError: no such topic"
    assert SubmissionFolder(tmp_path).lineage_end() == LineageEnd("FAIL", told=True)
