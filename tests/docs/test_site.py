"""The documentation site, which `make docs` builds: what its own strictness does not see."""

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser

import griffe
import markdown
import pytest
from markdown_it import MarkdownIt

import dagster_sparkscale
from dagster_sparkscale import ClusterManager
from dev.doc_fields import Fields
from dev.doc_links import repository_file
from tests.docs.pages import PAGES, ROOT, tables, text

SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
SHOWN = [page for page in PAGES if page.startswith("docs/")] + ["CHANGELOG.md"]
COMPARED = {
    *("h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "tr", "td"),
    *("pre", "code", "strong", "em", "blockquote"),
}


class Tags(HTMLParser):
    """Counts the headings, lists, tables and so on of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in COMPARED:
            self.counts[tag] += 1


@pytest.mark.parametrize("page", SHOWN)
def test_the_site_shows_a_page_as_github_does(page: str) -> None:
    """Python-Markdown wants four spaces before what belongs to an item, and an empty line where a
    code block is followed by an item; GitHub needs neither."""
    github = MarkdownIt("commonmark").enable("table").render(text(page))
    site = markdown.markdown(text(page), extensions=["tables", "pymdownx.superfences"])
    assert Tags(site).counts == Tags(github).counts


def test_the_reference_has_each_public_name_once() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    named = [
        name
        for page in pages
        for name in re.findall(r"^::: dagster_sparkscale\.(\w+)$", page.read_text(), re.M)
    ]
    assert sorted(named) == sorted(set(dagster_sparkscale.__all__) - {"__version__"})


def test_what_is_left_out_of_each_cluster_is_what_the_contract_has() -> None:
    [left_out] = re.findall(r'"!\^\(([\w|]+)\)\$"', SETTINGS)
    methods = {name for name, each in vars(ClusterManager).items() if callable(each)}
    assert set(left_out.split("|")) == {name for name in methods if not name.startswith("_")}


def made(source: str) -> str:
    return markdown.markdown(source, extensions=["dev.doc_links"])


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("[this](../definitions.py)", "<span>this (<code>definitions.py</code>)</span>"),
        ("[`definitions.py`](../definitions.py)", "<span><code>definitions.py</code></span>"),
        ("[a `b` c](../jobs)", "<span>a <code>b</code> c (<code>jobs</code>)</span>"),
        ("[that](cli.md#status)", '<a href="cli.md#status">that</a>'),
        ("[gone](../nothing.py)", '<a href="../nothing.py">gone</a>'),
        ("[CLI](docs/cli.md)", '<a href="../cli.md">CLI</a>'),
    ],
)
def test_a_file_of_the_repository_is_named_and_a_page_is_linked(source: str, shown: str) -> None:
    assert made(source) == f"<p>{shown}</p>"


def test_a_page_is_no_file_of_the_repository() -> None:
    assert repository_file("../declaring.md") is None
    assert repository_file("../README.md") == "README.md"


# Spark's own words, and those that only people use: the code has no noun for them.
NOT_OF_THE_CODE = {
    *("executor", "checkpoint", "tip of its source", "shard", "overdue", "backpressure", "heeded"),
    *(
        "throttled",
        "estimator",
        "receiver",
        "state",
        "key group",
        "recovery",
        "given up",
        "settled",
    ),
    *("decommission", "health", "fleet", "tick", "cursor"),
    *("hold (decision)", "hold (record)", "pinned (core)", "pinned (alert)"),
}


def test_the_glossary_has_words_of_the_vocabulary() -> None:
    def words(page: str) -> list[str]:
        rows = [row for table in tables(page) for row in table.rows]
        return [word for row in rows for word in row[0].split(", ")]

    assert set(words("docs/glossary.md")) - set(words("docs/vocabulary.md")) == NOT_OF_THE_CODE
    assert len(words("docs/glossary.md")) == len(set(words("docs/glossary.md")))


@pytest.fixture(scope="module")
def package() -> griffe.Module:
    """The package as the site reads it."""
    extensions = griffe.load_extensions(Fields)
    loaded = griffe.load("dagster_sparkscale", search_paths=[ROOT], extensions=extensions)
    assert isinstance(loaded, griffe.Module)
    return loaded


def field(package: griffe.Module, path: str) -> tuple[str, str, str]:
    """The type, the default and the docstring of a field."""
    attribute = package[path]
    return str(attribute.annotation), str(attribute.value), attribute.docstring.value


def test_a_field_is_shown_with_its_type_its_default_and_what_it_is(package: griffe.Module) -> None:
    policy = "autoscale.ratio.RatioPolicy.scale_up_ratio"
    assert field(package, policy) == ("Number", "0.9", "R from which on executors are added.")
    kind, default, what = field(package, "clusters.local.LocalCluster.workers")
    assert (kind, default, what) == ("int", "2", "Number of workers.")
    settings = "clusters.spark_cluster.SparkCluster.spark_conf"
    assert field(package, settings)[:2] == ("dict[str, str]", "dict()")
    component = field(package, "components.spark_streams.SparkStreams.autoscaler_running")
    assert component[1:] == (
        "True",
        "Whether the sensor runs as soon as the code location is loaded.",
    )


@pytest.mark.parametrize("name", sorted(dagster_sparkscale._HOMES))
def test_every_field_of_a_public_class_says_what_it_is(package: griffe.Module, name: str) -> None:
    """By its docstring, or among the class's arguments. `kind` only tells two classes apart."""
    public = getattr(dagster_sparkscale, name)
    declared = set(getattr(public, "model_fields", ()))
    if dataclasses.is_dataclass(public):
        declared |= {each.name for each in dataclasses.fields(public)}
    read = package[f"{dagster_sparkscale._HOMES[name]}.{name}"]
    told = read.docstring.value if read.docstring else ""
    silent = [
        own
        for own in read.members.keys() & declared - {"kind"}
        if not own.startswith("_") and not read.members[own].has_docstring
        if f"\n    {own}: " not in told
    ]
    assert silent == []
