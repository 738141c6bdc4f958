"""The asset of a stream as Dagster's `translation` has it: fields of the stream, by other names."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.operations import asset_key

_FIELDS = {
    "deps": "deps",
    "description": "description",
    "metadata": "metadata",
    "group_name": "group",
    "owners": "owners",
    "tags": "tags",
    "kinds": "kinds",
    "automation_condition": "automation_condition",
}
"""What Dagster calls each field of an asset that a stream has, and what the stream calls it."""

_NONE_OF_A_STREAM = ("skippable", "code_version", "freshness_policy", "partitions_def")


def asset_spec(stream: Stream) -> dg.AssetSpec:
    """What a stream declares of its asset."""
    given = {theirs: getattr(stream, ours) for theirs, ours in _FIELDS.items()}
    return dg.AssetSpec(
        asset_key(stream), **{**given, "kinds": {*stream.kinds}, "owners": [*stream.owners]}
    )


def translated(stream: Stream, get_asset_spec: Callable[[Stream], dg.AssetSpec]) -> Stream:
    """The stream whose asset is what `get_asset_spec` makes of it.

    Raises:
        DeclarationError: the asset of a stream can't be like that.
    """
    before, after = asset_spec(stream), get_asset_spec(stream)
    subject = f"{type(stream).__name__} {stream.name!r}: translation"
    *prefix, name = after.key.path
    if name != stream.name:
        raise DeclarationError(
            f"{subject}: key = {after.key.to_user_string()!r}: must end in the name of the stream; "
            "rename the stream, or give key_prefix"
        )
    for field in _NONE_OF_A_STREAM:
        if getattr(after, field, None) != getattr(before, field, None):
            raise DeclarationError(f"{subject}: drop {field}; a stream has none")
    changes: dict[str, Any] = {
        ours: _value(after, theirs)
        for theirs, ours in _FIELDS.items()
        if _value(after, theirs) != _value(before, theirs)
    }
    if after.key != before.key:
        changes["key_prefix"] = tuple(prefix)
    if not changes:
        return stream
    given = {field: getattr(stream, field) for field in stream.model_fields_set}
    return type(stream)(**{**given, **changes})


def _value(spec: dg.AssetSpec, field: str) -> Any:
    if field == "tags":  # of which Dagster makes the kinds some
        return {name: value for name, value in spec.tags.items() if name not in _of_kinds(spec)}
    return getattr(spec, field)


def _of_kinds(spec: dg.AssetSpec) -> set[str]:
    return {f"dagster/kind/{kind}" for kind in spec.kinds}
