"""What the docs show as said to the library it understands; what they show as its words it says."""

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

import dagster_sparkscale as ours
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.driver import wire
from dagster_sparkscale.driver.batches.reports import SourceReport, read_report
from dagster_sparkscale.observe.end_report import read_end_report, read_stopped
from dagster_sparkscale.sources.kinesis import kinesis_direct_stream
from dagster_sparkscale.sources.kinesis.options import NAMES
from dagster_sparkscale.watch.alerts.alerts import Alert
from dagster_sparkscale.watch.fleet.news import Occurrence
from tests.components.documents import loaded
from tests.docs.kinds import kind
from tests.docs.pages import PAGES, ROOT, Block, Table, blocks, code, tables
from tests.driver.serving import agent_of, ask, client_of, options, serving
from tests.fakes import dstream, structured

ALL = [block for page in PAGES for block in blocks(page)]
HELM_VALUES = ROOT / "deploy" / "kubernetes" / "values.yaml"
# Those of docs/metrics.md are for Prometheus (tests/docs/test_metrics.py), those that begin with
# `storage:` for Dagster's instance (tests/databases).
OURS = [
    b
    for b in ALL
    if kind(b) == "yaml" and b.page != "docs/metrics.md" and not b.first.startswith("storage:")
]
YAML = [block for block in OURS if not block.first.startswith("type:")]
[COMPONENT] = [block for block in OURS if block.first.startswith("type:")]
JSON = [block for block in ALL if kind(block) == "json"]


def shown(page: str, beginning: str) -> str:
    """The block of that page that begins so."""
    [block] = [each for each in blocks(page) if each.text.lstrip().startswith(beginning)]
    return block.text


def documents(text: str) -> list[Any]:
    """The JSON documents of a text, one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


@pytest.mark.parametrize("block", JSON, ids=lambda block: block.place)
def test_json_can_be_read(block: Block) -> None:
    assert documents(block.text)


@pytest.mark.parametrize("block", YAML, ids=lambda block: block.place)
def test_a_run_config_is_one_of_the_job_that_it_is_about(block: Block) -> None:
    """As it is pasted into the launchpad of a location with a stream of each kind."""
    streams = [structured("clicks"), dstream("orders", receivers=1, executor_cores=2)]
    defs = ours.build_defs(streams, ours.LocalCluster())
    config = yaml.safe_load(block.text)
    [operation] = config["ops"]
    assert dg.validate_run_config(defs.resolve_job_def(operation), config)
    config["ops"][operation]["config"]["of_no_job"] = 1
    with pytest.raises(dg.DagsterInvalidConfigError, match="of_no_job"):
        dg.validate_run_config(defs.resolve_job_def(operation), config)


def test_the_component_of_the_docs_is_loaded() -> None:
    with loaded(COMPONENT.text, clicks="") as (_, defs):
        assert defs.resolve_asset_graph().get(dg.AssetKey(["shop", "clicks"])).group_name == "web"


@pytest.mark.parametrize(
    "manifest",
    sorted({*HELM_VALUES.parent.glob("*.yaml")} - {HELM_VALUES}),
    ids=lambda path: path.name,
)
def test_a_manifest_says_what_it_makes(manifest: Path) -> None:
    objects = list(yaml.safe_load_all(manifest.read_text()))
    assert objects
    assert all({"apiVersion", "kind", "metadata"} <= set(each) for each in objects)


def test_an_alert_is_sent_as_the_docs_show_it() -> None:
    [told] = documents(shown("docs/alerts.md", "{\n"))
    since, text = float(told["id"].split("/")[2]), told["text"].partition(": ")[2]
    failed = Occurrence("clicks", "given_up", since, text, "/assets/clicks")
    problem = Alert("problem", failed, since + 30)
    over = Alert("resolved", failed, since + 12 * 60)
    ui = "https://dagster.example.com"
    webhook = ours.Webhook("https://example.com", dagster_url=ui)
    slack = ours.SlackWebhook("https://example.com", dagster_url=ui)
    assert webhook.payload(problem, 0) == told
    assert documents(shown("docs/alerts.md", '{"text"')) == [
        slack.payload(problem, 0),
        slack.payload(over, 0),
    ]


def test_what_a_driver_leaves_at_its_end_is_understood() -> None:
    stopped = read_stopped(shown("docs/agent.md", '{"at"'))
    assert [(query.name, query.batch_id) for query in stopped.queries] == [("clicks", 41)]
    last_words = read_end_report(shown("docs/agent.md", "sparkscale: last words"))
    assert last_words is not None
    assert last_words.raised == "ValueError: no such topic"


@pytest.mark.parametrize(
    ("page", "beginning", "behind_ms"),
    [
        ("docs/agent.md", '{"v": 1, "stream": "clicks", "behind_ms"', 1234),
        ("docs/kinesis.md", '{"v": 1, "stream": "clicks", "behind_ms"', 1200),
    ],
)
def test_the_report_of_a_source_is_understood(page: str, beginning: str, behind_ms: int) -> None:
    assert read_report(shown(page, beginning)) == SourceReport(behind_ms, shards=4, lost=0)


def requests() -> Iterator[tuple[str, str, Any]]:
    """Method, path and body of each request to the agent that the docs show."""
    pattern = r"(GET|PUT|POST) (/v1/\S+)\s*({.*})?"
    [table] = [table for table in tables("docs/agent.md") if table.header[0] == "request"]
    lines = [row[0].replace("`", "") for row in table.rows]
    for line in [*lines, shown("docs/kinesis.md", "PUT /v1/rates").strip()]:
        method, path, body = re.fullmatch(pattern, line).groups()  # type: ignore[union-attr]
        yield method, path, json.loads(body) if body else None


@pytest.mark.parametrize(("method", "path", "body"), [*requests()])
def test_the_agent_understands_the_requests(method: str, path: str, body: Any) -> None:
    """Some it carries out, for others Spark must run; it finds no fault with any."""
    agent = agent_of(dataclasses.replace(options(), epoch=7))
    with serving(agent, lambda graceful, seconds: None) as server:
        client = client_of(server)
        try:
            assert ask(client, method, path, body)[0] in (200, 202, 503)
            assert ask(client, method, f"{path.partition('?')[0]}s", body)[0] == 404
        finally:
            client.close()


@pytest.mark.parametrize(
    ("page", "least", "declared"),
    [
        ("docs/declaring.md", 2, {"receivers": 2}),
        (
            "docs/receivers.md",
            1,
            {
                "receivers": 4,
                "executor_cores": 4,
                "receiver_policy": ours.ReceiverPolicy(removal="fitting"),
            },
        ),
    ],
)
def test_a_declaration_is_refused_as_the_docs_show_it(
    page: str, least: int, declared: dict[str, Any]
) -> None:
    with pytest.raises(ours.DeclarationError) as refused:
        dstream("orders", autoscale=ours.RatioPolicy(min_executors=least), **declared)
    assert str(refused.value).split() == shown(page, "DStream 'orders'").split()


def test_the_rooms_of_the_architecture_are_those_of_the_package() -> None:
    package, found = ROOT / "dagster_sparkscale", set()
    room = ""
    for line in shown("docs/architecture.md", "cli/").splitlines():
        name = line.split()[0].rstrip("/")
        if line.startswith(" "):
            assert (package / room / name).is_dir(), line
            continue
        room = name
        assert (package / name).is_dir() or (package / f"{name}.py").is_file(), line
        found.add(name.split("/")[0])
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert folders - found == set(), "not in the list"


def test_the_signature_of_the_dstream_is_as_shown() -> None:
    text = shown("docs/kinesis.md", "kinesis_direct_stream(").strip()
    plain = [
        str(parameter.replace(annotation=inspect.Parameter.empty))
        for parameter in inspect.signature(kinesis_direct_stream).parameters.values()
    ]
    named = [part.strip() for part in text.partition("(")[2].rstrip(")").split(",")]
    assert [name.replace(" = ", "=") for name in plain] == [each for each in named if each != "*"]


def fields(*models: Any) -> set[str]:
    """What may be declared; `kind` only tells one kind of streams from the other."""
    named: set[str] = set()
    for model in models:
        named |= set(getattr(model, "model_fields", None) or model.__dataclass_fields__)
    return named - {"kind"}


def first_cells(table: Table) -> set[str]:
    """What the first cells have in backticks, but for what a bracket adds."""
    cells = [re.sub(r"\(.*?\)", "", row[0]) for row in table.rows]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


COMPLETE = {
    ("docs/declaring.md", "name"): fields(ours.StructuredStream, ours.DStream),
    ("docs/declaring.md", "scale_up_ratio"): fields(ours.RatioPolicy),
    ("docs/declaring.md", "slots"): fields(ours.RealTime),
    ("docs/backpressure.md", "estimator"): fields(ours.BackpressurePolicy),
    ("docs/backpressure.md", "max_offsets_per_trigger"): fields(ours.SourceLimits),
    ("docs/backpressure.md", "max_rate"): fields(ours.StreamingLimits),
    ("docs/backpressure.md", "schedule"): fields(ours.Retune),
    ("docs/declaring.md", "cron"): fields(ours.Window),
    ("docs/kinesis.md", "streamName"): set(NAMES),
    ("docs/lineage.md", "url"): fields(ours.Lineage),
    ("docs/kubernetes.md", "image"): fields(ours.KubernetesCluster),
    ("docs/receivers.md", "removal"): fields(ours.ReceiverPolicy),
    ("docs/receivers.md", "maximum"): fields(ours.ReceiverCount),
    ("docs/state.md", "key_groups"): fields(ours.State),
    ("docs/yarn.md", "resource_managers"): fields(ours.YarnCluster),
}


# What the agent answers is more than people need to know of, and so is what an application has.
ANSWERED = {
    ("docs/backtest.md", "overhead"): fields(Application),
    ("docs/agent.md", "cause"): fields(wire.Relaunch),
    ("docs/agent.md", "behind_ms"): fields(wire.Query),
    ("docs/kafka.md", "partitions_behind"): fields(wire.Query),
}


def table_of(page: str, first: str) -> Table:
    """The table of fields of that page that begins with that one."""
    [table] = [
        table
        for table in tables(page)
        if table.header[0].startswith(("field", "option"))
        and table.rows[0][0].startswith(f"`{first}`")
    ]
    return table


@pytest.mark.parametrize(("page", "first"), COMPLETE)
def test_a_table_of_fields_has_all_of_them_and_no_others(page: str, first: str) -> None:
    assert first_cells(table_of(page, first)) == COMPLETE[page, first]


@pytest.mark.parametrize(("page", "first"), ANSWERED)
def test_a_table_of_an_answer_has_fields_of_it(page: str, first: str) -> None:
    assert first_cells(table_of(page, first)) <= ANSWERED[page, first]


def test_every_table_of_fields_is_compared() -> None:
    begin = {
        (page, table.rows[0][0].split("`")[1])
        for page in PAGES
        for table in tables(page)
        if table.header[0].startswith(("field", "option"))
    }
    assert begin - set(COMPLETE) - set(ANSWERED) == set()


def test_options_of_the_source_that_blocks_set_are_options_of_it() -> None:
    text = "".join(block.text for block in blocks("docs/kinesis.md"))
    reading = re.findall(r'ormat\("kinesis-direct"\)(.*?)\.load\(\)', text, re.DOTALL)
    told = {name for each in reading for name in re.findall(r'\.option\("(\w+)"', each)}
    assert len(reading) == 2
    assert told <= set(NAMES)


def test_public_names_that_are_called_in_backticks_exist() -> None:
    """`RatioPolicy(...)`: its keywords are fields of it."""
    wrong = {}
    for page in PAGES:
        for text in code(page) if page != "CHANGELOG.md" else ():
            found = re.match(r"([A-Z]\w+)\((\w+=.*)\)$", text)
            if found and found[1] in ours.__all__:
                told = set(re.findall(r"(?:^|, )(\w+)=", found[2]))
                missing = told - set(inspect.signature(getattr(ours, found[1])).parameters)
                if missing:
                    wrong[page, text] = missing
    assert wrong == {}
