"""The job `backtest`, and its schedule: what other policies would have made of a stream.

It changes nothing, so it is no operation: the autoscaler goes on while it runs.
"""

import time
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from dagster_sparkscale.advice.backtest import (
    DAY,
    DAYS,
    MOST_DAYS,
    MOST_LATE,
    NoAdvice,
    minutes_of,
    run_backtest,
)
from dagster_sparkscale.advice.grid import policies_to_try
from dagster_sparkscale.advice.specs import named
from dagster_sparkscale.advice.text import as_dict, conclusion, markdown
from dagster_sparkscale.declare.backtest import Backtest
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.names import BACKTEST, scoped
from dagster_sparkscale.operations import Streams, asset_key, failure, job_of_op

NAME = "backtest"
_DESCRIPTION = (
    "Try policies on a stream's history, beside the one that ran. Changes nothing; what comes of "
    "it is an observation of the stream's asset."
)
_BEHIND_OTHERS = {"dagster/priority": "-1"}
"""Tag of the runs: those of a thousand streams that a schedule asks for at once would keep the
operations waiting that come after them, for longer than a rescale is good for."""


class BacktestConfig(dg.Config):
    """The config of a backtest run."""

    days: float = Field(default=DAYS, gt=0, le=MOST_DAYS, description="Days of history.")
    most_late: float = Field(
        default=MOST_LATE,
        ge=0,
        le=100,
        description="Percent of the time whose records may come too late.",
    )
    policies: list[str] = Field(
        default=["capacity"],
        description="What is tried beside the declared policy, such as "
        "ratio:scale_up_ratio=0.8,max_executors=12 or capacity:price_of_lateness=100.",
    )
    recommend: bool = Field(
        default=False,
        description="Try many policies, as `sparkscale recommend` does: takes some minutes.",
    )
    seed: int = Field(default=0, description="Decides the noise.")


def backtest_job(streams: Streams) -> dg.JobDefinition:
    """The job, for each of these streams."""
    name = scoped(NAME, streams.cluster_key)

    def run(context: dg.OpExecutionContext, config: Any) -> None:
        stream = streams.by_name[config.stream.value]
        context.log_event(_observed(context, stream, config))

    of = (streams.Name, Field(description="The stream to backtest."))
    run.__annotations__["config"] = create_model(
        BacktestConfig.__name__, __base__=BacktestConfig, stream=of
    )
    op = dg.op(name=name, description=_DESCRIPTION)(run)
    return job_of_op(op, _DESCRIPTION, {**_BEHIND_OTHERS, **streams.run_tags})


def backtest_schedule(
    streams: Streams, job: dg.JobDefinition, declared: Backtest
) -> dg.ScheduleDefinition:
    """A run for each stream, as often as declared.

    Raises:
        DeclarationError: a stream can't have one of the policies.
    """
    for stream in streams:
        for each in declared.policies:
            named(each, stream)
    asked = {
        "days": declared.days,
        "most_late": declared.most_late,
        "policies": list(declared.policies),
    }

    @dg.schedule(
        name=scoped("backtests", streams.cluster_key),
        job=job,
        cron_schedule=declared.cron,
        execution_timezone=declared.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Tries policies on the history of each stream, and tells what comes of it.",
    )
    def backtests(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        at = int(context.scheduled_execution_time.timestamp())
        return [
            dg.RunRequest(
                run_key=f"{NAME}:{stream.name}:{at}",
                run_config={"ops": {job.name: {"config": {**asked, "stream": stream.name}}}},
            )
            for stream in streams
        ]

    return backtests


def _observed(context: Any, stream: Stream, config: Any) -> dg.AssetObservation:
    policies = policies_to_try(stream) if config.recommend else config.policies
    try:
        minutes = minutes_of(context.instance, stream, time.time() - config.days * DAY)
        found = run_backtest(
            *(minutes, stream, policies), most_late=config.most_late, seed=config.seed
        )
    except NoAdvice as error:
        said = f"no advice: {error}"
        context.log.warning(said)
        return dg.AssetObservation(asset_key=asset_key(stream), description=said)
    except ValueError as error:  # also a DeclarationError
        raise failure(str(error)) from None
    said = conclusion(stream.name, found)
    context.log.info(said)
    return dg.AssetObservation(
        asset_key=asset_key(stream),
        description=said,
        metadata={
            NAME: dg.MetadataValue.md(markdown(stream.name, found)),
            # One entry: a number with an entry of its own would be a plot of single points.
            BACKTEST: dg.MetadataValue.json(as_dict(stream.name, found)),
        },
    )
