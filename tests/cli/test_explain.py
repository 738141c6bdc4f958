"""Why a stream has the number of executors that it has."""

from dataclasses import replace

from dagster_sparkscale.cli.explain import _lines as explained
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.page import of_state
from dagster_sparkscale.watch.fleet.rows import row
from dagster_sparkscale.watch.sighting import Sighting
from tests.cli.terminal import Terminal
from tests.fakes import QUERY, batch, driver, scaled, status
from tests.state.saying import change, kept_by
from tests.watch.assessing import assess
from tests.watch.deployment import grown


def lines(terminal: Terminal, stream: str = "clicks") -> dict[str, str]:
    done = terminal.ask("explain", stream)
    assert done.exit_code == 0, done.output
    return {
        title: text.strip()
        for title, _, text in (line.partition(":") for line in done.output.splitlines())
    }


def test_the_sum_leads_from_r_to_the_number_that_is_decided(terminal: Terminal) -> None:
    grown(terminal.kept()).batch_seconds = 25
    said = lines(terminal)
    assert said["health"].startswith("slow: R is 2.50")
    assert said["executors"].startswith("2 registered; 2 asked for")
    assert said["R"].startswith("2.50 = 25 s mean processing time / 10 s batch interval, of query")
    assert said["policy"].endswith("; 2 that stay + R 2.50 rounded, at least 1, = 5")
    assert said["bounds"].startswith("1 to 10")
    assert said["decision"].startswith("scale to 5: ")


def test_the_sum_stays_within_the_bounds(terminal: Terminal) -> None:
    grown(terminal.kept()).batch_seconds = 95
    said = lines(terminal)
    assert said["policy"].endswith("= 12, within the bounds 10")
    assert said["decision"].startswith("scale to 10: ")


def test_what_stands_in_for_r_and_what_is_to_come_are_told(terminal: Terminal) -> None:
    kept = grown(terminal.kept())
    kept.requested = 5
    kept.queries = (Query(QUERY, active=True, running_ms=360_000),)
    said = lines(terminal)
    assert said["health"].startswith("stuck for 6 min")
    assert said["R"].startswith("36.00 stands in: no batch completes")
    assert said["executors"] == "3 registered; 5 asked for, 2 executors to come"


def test_of_one_without_a_policy_or_a_driver_it_says_what_is_known(terminal: Terminal) -> None:
    said = lines(terminal, "orders")
    assert said["policy"] == "none: nothing but a person changes the number"
    terminal.kept().reachable = False
    said = lines(terminal)
    assert said["health"].startswith("not answering: ")
    assert "R" not in said


def test_who_steers_it_is_there(terminal: Terminal) -> None:
    grown(terminal.kept())
    assert terminal.ask("pin", "clicks", "3", "--for", "2h", "--reason", "sale").exit_code == 0
    assert "pinned to 3" in lines(terminal)["steering"]


def test_a_decision_that_r_has_not_made_has_no_sum_of_r() -> None:
    seen = status(started_at=1400.0, batches=(batch(9.5),), registered=2, requested=20)
    sighting = Sighting("clicks", driver(), seen)
    found = assess(scaled(max_executors=8), sighting, now=2000.0)
    said = dict(explained(found, row(found)))
    assert said["decision"].startswith("scale to 8: 20 requested is outside the bounds")
    assert "that stay" not in said["policy"]


def test_what_came_of_the_last_change_of_state_is_told(terminal: Terminal) -> None:
    kept = grown(terminal.kept())
    assert "state" not in lines(terminal)
    kept.reconfigurations = (change(seconds={"ending": 1.0, "starting": 2.0}, way="in place"),)
    assert lines(terminal)["state"].endswith(
        "'counts', 4 -> 8 partitions, changed after 3.0 s, stood still for 2.0 s, in place"
    )


def test_how_much_state_there_is_and_what_is_being_done_to_it_is_told() -> None:
    declared = State(key_groups=16, partitions=8)
    said = status(
        queries=(kept_by(),),
        reconfigurations=(
            change(seconds={"starting": 2.0}),
            replace(
                change(id="p2", outcome=None, step="catching up", after=16, behind=5), began_at=0.0
            ),
        ),
    )
    assert [*of_state(said, declared)] == [
        "'counts': 1,000,000 rows in 64 MiB, 4 partitions, 16 key groups; declared: 8, which a "
        "reconfiguration without a number goes back to",
        "'counts': 4 -> 16 partitions since 1970-01-01 00:00 UTC: catching up, 5 batches behind; "
        "the query runs",
    ]
    ended = replace(said, queries=(replace(kept_by(), active=False),))
    assert [*of_state(ended, declared)] == [
        "'counts': 4 -> 16 partitions since 1970-01-01 00:00 UTC: catching up, 5 batches behind; "
        "the query stands still"
    ]
