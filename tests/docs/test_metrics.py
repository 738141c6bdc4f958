"""The page of the metrics has each of them, as they are exported, and queries of nothing else."""

import re
from pathlib import Path

import yaml

from dagster_sparkscale.clusters.host.folders import SubmissionFolder
from dagster_sparkscale.clusters.kubernetes.manifests import METRICS_TOKEN, TOKEN
from dagster_sparkscale.clusters.kubernetes.names import of_epoch
from dagster_sparkscale.clusters.kubernetes.spark import AGENT_PORT
from dagster_sparkscale.driver.metrics.samples import AGENT
from dagster_sparkscale.serve.metrics import ALL
from tests.docs.pages import blocks, code, tables, text
from tests.serve.test_deployed import rules

PAGE = "docs/metrics.md"


def test_the_table_is_what_is_exported() -> None:
    [table] = (each for each in tables(PAGE) if each.header[0] == "metric")
    told_by_agents = {metric.name for metric in AGENT}
    exported = {
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            "yes" if metric.name in told_by_agents else "no",
            metric.help,
        )
        for metric in ALL
    }
    assert set(table.rows) == exported
    assert len(table.rows) == len(exported)


def test_metrics_in_backticks_are_exported() -> None:
    names = {metric.name for metric in ALL}
    names |= {f"{metric.name}_bucket" for metric in ALL if metric.kind == "histogram"}
    named = {name for each in code(PAGE) for name in re.findall(r"sparkscale_\w+", each)}
    assert named <= names


def test_the_table_of_alerts_is_what_is_shipped() -> None:
    [table] = (each for each in tables(PAGE) if each.header[0] == "alert")
    shipped = [(f"`{rule['alert']}`", rule["labels"]["severity"]) for rule in rules()]
    assert sorted((row[0], row[2]) for row in table.rows) == sorted(shipped)


def test_what_prometheus_is_given_is_a_job_with_a_target() -> None:
    given = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    assert len(given) == 2
    for each in given:
        [job] = each["scrape_configs"]
        assert job["static_configs"][0]["targets"][0].endswith(":9464")


def test_where_the_token_for_reading_lies_is_said() -> None:
    assert {METRICS_TOKEN, SubmissionFolder(Path()).metrics_token.name} <= {*code(PAGE)}
    on_kubernetes = {*code("docs/kubernetes.md")}
    assert {METRICS_TOKEN, TOKEN, of_epoch("clicks", 7)} <= on_kubernetes
    assert f"at port {AGENT_PORT} of its" in text("docs/kubernetes.md")
