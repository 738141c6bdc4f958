"""A query whose checkpoint is in an object store: its state is changed beside the stream there."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.driver.state.layout import COPIES
from dev.s3.server import Store
from tests.driver.state.copied_elsewhere import CONTENT, COPIED, told
from tests.driver.state.elsewhere import on_s3
from tests.driver.state.operators import VARIANTS
from tests.driver.state.s3 import served
from tests.driver.state.test_operators import check_beside, twins
from tests.releases import CHANGES_STATE

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with served(tmp_path_factory.mktemp("s3")) as store:
        yield store


def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, s3):
    there = on_s3(s3)
    settings = {**there.settings, **VARIANTS["changelogs"]}
    (told_of,) = twins(tmp_path, "8", "aggregation", settings=settings, how="_beside")
    check_beside(told_of, [8])
    for each in told_of["changes"]:
        assert "verifying" not in each["seconds"]
    left = s3.content(there.folder)
    assert left
    assert not [name for name in left if COPIES in name]


def test_the_store_copies_a_file_by_itself_to_where_there_is_none(tmp_path):
    """Also where it has too much to do for a while: Amazon's client gives up after six requests."""
    with served(tmp_path, "--slow-down", "8") as s3:
        found = told(
            on_s3(s3),
            **{
                # S3A then writes over what is there, whatever it is asked for.
                "spark.hadoop.fs.s3a.create.performance": "true",
                "spark.hadoop.fs.s3a.audit.reject.out.of.span.operations": "true",
            },
        )
    assert found == {
        **COPIED,
        "read by the driver": 0,
        "read by a reader": len(CONTENT),
        "there": ["1.zip", "2.zip", "4.zip"],
        "free": None,
    }
