"""A query whose checkpoint is in an object store: its state is changed beside the stream there."""

from collections.abc import Iterator

import pytest

from dev.s3.server import Store
from tests.driver.state.elsewhere import on_s3
from tests.driver.state.operators import VARIANTS
from tests.driver.state.s3 import served
from tests.driver.state.test_operators import check_beside, twins

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with served(tmp_path_factory.mktemp("s3")) as store:
        yield store


def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, s3):
    settings = {**on_s3(s3).settings, **VARIANTS["changelogs"]}
    (told,) = twins(tmp_path, "8", "aggregation", settings=settings, how="_beside")
    check_beside(told, [8])
    for each in told["changes"]:
        assert "verifying" not in each["seconds"]
    assert not [name for name in s3.content("/") if "_sparkscale_state/beside" in name]
