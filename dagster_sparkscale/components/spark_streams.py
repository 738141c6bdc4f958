"""The component `SparkStreams`: the streams of one cluster, in a `defs.yaml`.

All that knows of declarations is imported when it is used: this module is loaded in each process
that loads a folder of definitions, whether there is a stream in it or not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, create_model

from dagster_sparkscale.components.scaffold import SparkStreamsScaffolder
from dagster_sparkscale.names import DEFAULT_CLUSTER_KEY

if TYPE_CHECKING:
    from dagster_sparkscale.clusters.base import ClusterManager
    from dagster_sparkscale.declare.backtest import Backtest
    from dagster_sparkscale.declare.budget import Budget
    from dagster_sparkscale.declare.stream import Stream


def _streams(context: dg.ResolutionContext, given: Any) -> Any:
    from dagster_sparkscale.components import resolving

    return resolving.streams(context, given)


def _cluster(context: dg.ResolutionContext, given: Any) -> Any:
    from dagster_sparkscale.components import resolving

    return resolving.cluster(context, given)


def _budget(context: dg.ResolutionContext, given: Any) -> Any:
    from dagster_sparkscale.components import resolving

    return resolving.budget(context, given)


def _backtest(context: dg.ResolutionContext, given: Any) -> Any:
    from dagster_sparkscale.components import resolving

    return resolving.backtest(context, given)


def _plain(context: dg.ResolutionContext, given: Any) -> Any:
    from dagster_sparkscale.components import resolving

    return resolving.plain(context, given)


def _attribute(resolve: Callable[[dg.ResolutionContext, Any], Any], about: str) -> dg.Resolver:
    """How an attribute is resolved whose templates are rendered here, and not by Dagster."""
    # `Any`: what is wrong with it the declarations say, and no model before them.
    kind: Any = Any
    return dg.Resolver(
        resolve, model_field_type=kind, description=about, inject_before_resolve=False
    )


@dg.scaffold_with(SparkStreamsScaffolder)
@dataclass(kw_only=True)
class SparkStreams(dg.Component, dg.Resolvable):
    """Long-running Spark streaming jobs as assets that scale themselves: the streams of one
    cluster.

    An asset and health checks for each stream; jobs, and the sensor that scales them all.
    """

    streams: Annotated[
        "Sequence[Stream]",
        _attribute(_streams, "The streams: each a StructuredStream or a DStream, with its fields."),
    ]
    cluster: Annotated[
        "ClusterManager", _attribute(_cluster, "The cluster manager they run on, with its fields.")
    ]
    cluster_key: Annotated[
        str,
        _attribute(
            _plain,
            "The key of the resource, which ends the names of the jobs and of the sensor. Each "
            "cluster of a code location needs its own.",
        ),
    ] = DEFAULT_CLUSTER_KEY
    autoscaler_running: Annotated[
        bool,
        _attribute(_plain, "Whether the sensor runs as soon as the code location is loaded."),
    ] = True
    run_tags: Annotated[
        Mapping[str, Any] | None,
        _attribute(_plain, "Tags of the runs of the jobs, such as dagster-k8s/config."),
    ] = None
    budget: Annotated[
        "Budget | None",
        _attribute(_budget, "The cores that the streams may have together, and groups of them."),
    ] = None
    backtest: Annotated[
        "Backtest | None",
        _attribute(_backtest, "When the streams are backtested by themselves."),
    ] = None
    shards: Annotated[
        int,
        _attribute(_plain, "The sensors that evaluate the streams, each a part of them."),
    ] = 1
    translation: Annotated[
        TranslationFn[Any] | None,
        TranslationFnResolver[Any](lambda stream: {"stream": stream}),
    ] = None
    """Attributes of the asset of each stream."""

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(tags=["spark", "streaming"])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel] | None:
        return _model(cls)

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        # Dagster shows the fields of a resource, but of an EnvVar only its name.
        return {"EnvVar": dg.EnvVar, **super().get_additional_scope()}

    def get_asset_spec(self, stream: "Stream") -> dg.AssetSpec:
        """What the asset of a stream is like: a subclass may have it otherwise. What a stream
        declares of its asset can be changed, and no more."""
        from dagster_sparkscale.components.translation import asset_spec

        spec = asset_spec(stream)
        return self.translation(spec, stream) if self.translation else spec

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from dagster_sparkscale.components.translation import translated
        from dagster_sparkscale.declare.declaration import DeclarationError
        from dagster_sparkscale.definitions import build_defs

        try:
            return build_defs(
                [translated(stream, self.get_asset_spec) for stream in self.streams],
                self.cluster,
                cluster_key=self.cluster_key,
                autoscaler_running=self.autoscaler_running,
                run_tags=self.run_tags,
                budget=self.budget,
                backtest=self.backtest,
                shards=self.shards,
            )
        except DeclarationError as error:
            raise DeclarationError(f"{context.path}: {error}") from error


_MODELS: dict[type, type[BaseModel]] = {}


def _model(cls: type[SparkStreams]) -> type[BaseModel]:
    """The model of what a document has, whose schema knows the declarations."""
    if cls not in _MODELS:
        derived = cls.model()

        def add_declarations(schema: dict[str, Any]) -> None:
            from dagster_sparkscale.components.schema import attributes

            for name, made in attributes().items():
                about = schema["properties"][name].get("description", "")
                schema["properties"][name] = {"description": about, **made}

        _MODELS[cls] = create_model(
            derived.__name__,
            __base__=derived,
            __cls_kwargs__={"json_schema_extra": add_declarations},
        )
    return _MODELS[cls]
