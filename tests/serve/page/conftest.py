from collections.abc import Iterator

import dagster as dg
import pytest

from dagster_sparkscale.cli.locations import instance_of_home
from dagster_sparkscale.serve.http import Server
from dagster_sparkscale.serve.page.site import Site
from tests.cli.terminal import Terminal
from tests.observe.stored import store
from tests.serve.page.history import minutes
from tests.serve.scraping import running
from tests.serve.test_serve import fleet_of


@pytest.fixture
def lived(terminal: Terminal) -> Terminal:
    """`clicks` has run for three days, with a gap of two hours that ended an hour ago, and was
    rescaled by hand."""
    with dg.DagsterInstance.get() as instance:
        for part in minutes():
            store(instance, dg.AssetKey("clicks"), part)
    done = terminal.ask("scale", "clicks", "4", "--reason", "<b>a launch</b>")
    assert done.exit_code == 0, done.output
    return terminal


@pytest.fixture
def served(lived: Terminal) -> Iterator[Server]:
    """The pages of that code location, as the command serves them."""
    fleet = fleet_of(every=0.2)
    server = Server(("127.0.0.1", 0), fleet.samples, site=Site(fleet, instance_of_home))
    with running(server):
        yield server
