"""What is of one's own, as a user would have them in a module of their own."""

from dataclasses import dataclass

import dagster as dg

from dagster_sparkscale import (
    AutoscalePolicy,
    Bounds,
    Evaluation,
    Hold,
    LocalCluster,
    ScaleTo,
    SparkStreams,
    StructuredStream,
)
from dagster_sparkscale.declare.stream import Stream


class Steady(AutoscalePolicy):
    executors: int = 1

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return ScaleTo(bounds.aim(self.executors), "as it was declared")


class Orders(StructuredStream):
    """A stream of orders."""


class Machine(LocalCluster):
    """A cluster of this machine."""


@dataclass(kw_only=True)
class TeamStreams(SparkStreams):
    """Streams of a team."""

    team: str

    def get_asset_spec(self, stream: Stream) -> dg.AssetSpec:
        return super().get_asset_spec(stream).replace_attributes(owners=[f"team:{self.team}"])
