"""The alerts and the dashboard that are shipped name what is exported, and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.serve.metrics import ALL, ENDINGS, OTHER

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "sparkscale.json"
VALUES = {
    "kind": {"registered", "requested", "leaving", "minimum", "maximum", "used", "allowed"},
    "state": {"running", "starting", "failed", "stopped", "unknown", "not started"},
    "check": {check.value for check in Health},
    "ending": {*ENDINGS, OTHER},
    "result": {"completed", "failed"},
}


def rules() -> list[dict[str, object]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def expressions() -> Iterator[str]:
    yield from (str(rule["expr"]) for rule in rules())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_what_they_ask_for_is_exported() -> None:
    labels = {metric.name: {*metric.labels} for metric in ALL}
    for metric in ALL:
        if metric.kind == "histogram":
            labels |= {f"{metric.name}_bucket": {*metric.labels, "le"}}
    asked = 0
    for expression in expressions():
        named = re.findall(r"(sparkscale_\w+)(?:\{([^}]*)\})?", expression)
        assert named, expression
        for name, selector in named:
            asked += 1
            assert name in labels, expression
            for label, _, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', selector):
                assert label in labels[name], expression
                assert value.startswith("$") or value in VALUES[label], expression
        for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            of_any = set().union(*(labels[name] for name, _ in named))
            assert {each.strip() for each in group.split(",")} <= of_any, expression
    assert asked > 40


def test_what_is_exported_for_alerts_is_asked_for() -> None:
    asked = " ".join(expressions())
    for name in ("ratio", "lag_seconds", "executors", "rescales_total", "watermark", "state_bytes"):
        assert f"sparkscale_{name}" in asked


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_of_what_and_how_bad_it_is(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    of_what = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    # What tells that there is nothing has no labels.
    nothing = str(rule["expr"]).startswith("absent(")
    assert not of_what if nothing else of_what[0] in ("stream", "query", "cluster")


def test_a_panel_has_a_title_and_overlaps_none() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels})
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not taken & cells and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
