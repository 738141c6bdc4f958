"""When the streams of a cluster are backtested by themselves. Pure."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from dagster_sparkscale.declare.cron import schedule_faults
from dagster_sparkscale.declare.declaration import Declaration, Number


class Backtest(Declaration):
    """A backtest of each stream, as a schedule has it: what its policy, and others, would have made
    of its history. What comes of it is told on the stream's asset; nothing is changed."""

    cron: str = "0 6 * * 1"
    """When, as cron has it: by default each Monday at six."""

    timezone: str | None = None
    """The time zone of `cron`, such as Europe/Berlin. None: UTC."""

    days: Annotated[Number, Field(gt=0, le=90)] = 7.0
    """Days of history that are looked at."""

    most_late: Annotated[Number, Field(ge=0, le=100)] = 1.0
    """Percent of the time whose records may come too late."""

    policies: tuple[str, ...] = ("capacity",)
    """What is tried beside the declared policy, as `sparkscale backtest --policy` has it."""

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        yield from schedule_faults("cron", self.cron, self.timezone)
