"""What a driver that was cut tells of its queries, where they have told nothing themselves."""

from dagster_sparkscale.driver.batches.dstreams import QUERY
from dagster_sparkscale.driver.ending.end_report import Stopped
from dagster_sparkscale.driver.ending.stopper import Stopper
from dagster_sparkscale.driver.wire import Batch
from tests.driver.serving import agent_of, options


def test_a_graph_that_is_cut_has_done_the_batches_that_it_has_told() -> None:
    agent, told = agent_of(options()), list[Stopped]()
    for number in range(118):
        agent.history.add(Batch(QUERY, float(number), 10, batch_id=1000 * number))
    stopper = Stopper(agent, told.append)
    assert not stopper._report_how(False, [QUERY, "clicks"])
    (how,) = told
    assert how.in_words().endswith(
        f"{QUERY}: cut, batch 117000 done; clicks: unknown how, no batch done"
    )
