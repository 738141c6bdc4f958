"""What is told of the sources of a query, by their names and options."""

import pytest

from dagster_sparkscale.driver.state.beside.limits import Source, why_not_read_again
from dagster_sparkscale.driver.state.beside.replaying import source


@pytest.mark.parametrize(
    ("name", "options", "found"),
    [
        ("FileSource[file:/in]", {"path": "/in"}, Source("files")),
        ("FileSource[file:/in]", {"cleanSource": "OFF"}, Source("files")),
        ("FileSource[file:/in]", {"cleanSource": "delete"}, Source("files", True)),
        ("FileSource[file:/in]", {"cleansource": "archive"}, Source("files", True)),
        ("kafka", {"subscribe": "clicks"}, Source("kafka")),
        ("socket", {}, Source("socket")),
    ],
)
def test_sources_are_told_apart(name, options, found):
    assert source(name, options) == found


def test_two_queries_of_one_consumer_group_would_disturb_each_other():
    why = why_not_read_again([source("kafka", {"kafka.group.id": "mine"})])
    assert why.startswith("it reads from 'kafka with a kafka.group.id', of which it is not known")
