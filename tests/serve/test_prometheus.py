"""A real Prometheus scrapes `sparkscale serve` and an agent, and has the alerts; promtool reads
what is exported and the rules."""

import subprocess
from pathlib import Path

import pytest
import yaml

from dagster_sparkscale.driver.metrics.token import read_token
from dagster_sparkscale.serve.http import Server
from dev.prometheus.building import program
from dev.prometheus.running import prometheus
from tests.cli.terminal import Terminal
from tests.driver.serving import TOKEN, agent_of, options, serving
from tests.serve.scraping import get, running
from tests.serve.test_deployed import ALERTS, expressions, rules
from tests.serve.test_serve import fleet_of
from tests.waiting import wait_for

pytestmark = pytest.mark.clusters

SERVED = "0123456789abcdef-served"


def promtool(*words: str, text: str | None = None) -> str:
    command = [str(program("promtool")), *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_alerts_and_they_fire() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(ALERTS.with_name("alerts_test.yaml")))


def test_promtool_finds_nothing_wrong_with_what_is_exported(terminal: Terminal) -> None:
    terminal.kept().batch_seconds = 12.0
    with running(Server(("127.0.0.1", 0), fleet_of().samples)) as server:
        code, text, _ = get(server)
    assert code == 200
    promtool("check", "metrics", text=text)


def test_a_prometheus_scrapes_both_and_fires(terminal: Terminal, tmp_path: Path) -> None:
    terminal.kept().batch_seconds = 12.0
    served, read = tmp_path / "served", tmp_path / "read"
    served.write_text(SERVED)
    read.write_text(read_token(TOKEN))
    rules_file = tmp_path / "alerts.yaml"
    # The same rules, at once: nobody waits ten minutes here.
    groups = yaml.safe_load(ALERTS.read_text())
    for rule in groups["groups"][0]["rules"]:
        rule.pop("for", None)
    rules_file.write_text(yaml.safe_dump(groups))
    made = Server(("127.0.0.1", 0), fleet_of(every=1.0).samples, token_file=served)
    with running(made) as server, serving(agent_of(options()), lambda *_: None) as agent:
        jobs = {"served": (server.server_port, served), "agent": (agent.server_port, read)}
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": [str(rules_file)],
            "scrape_configs": [
                {
                    "job_name": name,
                    "authorization": {"credentials_file": str(token)},
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                }
                for name, (port, token) in jobs.items()
            ],
        }
        with prometheus(yaml.safe_dump(config), tmp_path) as there:
            say = there.log.read_text
            for job in jobs:
                query = f'up{{job="{job}"}} == 1'
                wait_for(f"{job} is scraped", lambda q=query: there.values(q), about=say)
            [ratio] = there.values('sparkscale_ratio{job="served", stream="clicks"}').values()
            assert ratio == pytest.approx(1.2)
            [epoch] = there.values('sparkscale_driver_epoch{job="agent"}').values()
            assert epoch == 4
            firing = 'ALERTS{alertname="SparkscaleBatchesTooSlow", alertstate="firing"}'
            [labels] = wait_for("it fires", lambda: there.values(firing), about=say)
            assert ("stream", "clicks") in labels
            for expression in expressions():
                asked = expression.replace("$cluster", ".*").replace("$stream", ".*")
                there.values(asked)  # it understands all that is shipped
            with pytest.raises(ValueError, match="parse error"):
                there.values("sparkscale_ratio{")
