"""Clusters of tests are started on machines that may be busy."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.clusters import daemons
from tests.waiting import HANGS


@pytest.fixture(scope="session", autouse=True)
def no_hurry() -> Iterator[None]:
    """A master or worker that takes its time to come up is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "START_SECONDS", HANGS)
        yield
