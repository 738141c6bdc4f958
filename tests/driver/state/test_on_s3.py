"""A query whose checkpoint is in an object store: its state is changed beside the stream there."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dagster_sparkscale.driver.state.layout import COPIES
from dev.s3.server import Store
from tests.driver.running import environment
from tests.driver.state.copied_in_s3 import CONTENT
from tests.driver.state.elsewhere import on_s3
from tests.driver.state.operators import VARIANTS
from tests.driver.state.s3 import served
from tests.driver.state.test_operators import check_beside, twins
from tests.waiting import patience

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with served(tmp_path_factory.mktemp("s3")) as store:
        yield store


def test_results_are_those_of_a_query_that_was_never_changed(tmp_path, s3):
    there = on_s3(s3)
    settings = {**there.settings, **VARIANTS["changelogs"]}
    (told,) = twins(tmp_path, "8", "aggregation", settings=settings, how="_beside")
    check_beside(told, [8])
    for each in told["changes"]:
        assert "verifying" not in each["seconds"]
    left = s3.content(there.folder)
    assert left
    assert not [name for name in left if COPIES in name]


def test_the_store_copies_a_file_by_itself_to_where_there_is_none(s3):
    there = on_s3(s3)
    # S3A then writes over what is there, whatever it is asked for.
    settings = {**there.settings, "spark.hadoop.fs.s3a.create.performance": "true"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.driver.state.copied_in_s3"),
            *(f"{s3.url}{there.folder}", json.dumps(settings)),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "read by the driver": 0,
        "same": True,
        "read by a reader": len(CONTENT),
        "over another": "FileExistsError",
        "put over another": "FileExistsError",
        "of none": "missing",
        "free": None,
    }
