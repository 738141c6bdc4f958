"""The capabilities, a row each: the only place that names them all."""

from dagster_sparkscale.autoscale import effect, steering_page
from dagster_sparkscale.autoscale.steer_job import STEER_STREAM
from dagster_sparkscale.backpressure import page as limits_page
from dagster_sparkscale.backpressure.retune_job import RETUNE
from dagster_sparkscale.backpressure.schedules import retune_schedules
from dagster_sparkscale.backpressure.set_limits_job import SET_LIMITS
from dagster_sparkscale.capability import Capabilities, Capability
from dagster_sparkscale.kafka import page as kafka_page
from dagster_sparkscale.lineage.ends import EndTeller
from dagster_sparkscale.realtime import page as realtime_page
from dagster_sparkscale.receivers import count, faults
from dagster_sparkscale.receivers import page as receivers_page
from dagster_sparkscale.receivers.decide import decide
from dagster_sparkscale.receivers.rebalance_job import REBALANCE
from dagster_sparkscale.receivers.recount_job import SET_RECEIVERS
from dagster_sparkscale.state import page as state_page
from dagster_sparkscale.state.after_change import not_for_the_copy
from dagster_sparkscale.state.reconfigure_job import RECONFIGURE
from dagster_sparkscale.state.schedules import maintenance_schedules
from dagster_sparkscale.state.task_waves import in_whole_waves

_ENDS = EndTeller()

CAPABILITIES = Capabilities(
    Capability("steering", operations=(STEER_STREAM,), sections=steering_page.sections),
    Capability(
        "receivers",
        operations=(REBALANCE, SET_RECEIVERS),
        decide=decide,
        faults=faults.faults,
        learn=count.learn,
        sections=receivers_page.sections,
        numbers=receivers_page.numbers,
        news=receivers_page.news,
    ),
    Capability(
        "backpressure",
        operations=(SET_LIMITS, RETUNE),
        schedules=retune_schedules,
        sections=limits_page.sections,
        numbers=limits_page.numbers,
    ),
    Capability(
        "state",
        operations=(RECONFIGURE,),
        schedules=maintenance_schedules,
        busy=state_page.busy,
        adjust=lambda at, decision: not_for_the_copy(at, in_whole_waves(at, decision)),
        sections=state_page.sections,
        numbers=state_page.numbers,
    ),
    Capability("kafka", sections=kafka_page.sections),
    Capability(
        "realtime",
        busy=realtime_page.busy,
        faults=realtime_page.faults,
        sections=realtime_page.sections,
    ),
    Capability("lineage", learn=_ENDS.learn, ended=_ENDS.see),
    Capability("effect", adjust=effect.adjust, learn=effect.learn),
)
"""All capabilities, in the order of their sections on a stream's page."""
