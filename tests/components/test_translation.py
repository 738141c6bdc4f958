"""The asset of a stream otherwise than the stream declares it: translation, a subclass, and what
Dagster does to it afterwards."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing.test_cases import TestTranslation as Cases

from dagster_sparkscale.components import SparkStreams
from tests.components.documents import CLUSTER, STREAM, document, errors, loaded
from tests.components.own import TeamStreams

Cases.__test__ = False  # type: ignore[attr-defined]


def three_kinds_at_most() -> bool:
    """Whether this Dagster is one before an asset could have more, of which a stream has two."""
    try:
        dg.AssetSpec("a", kinds={"a", "b", "c", "d"})
    except dg.DagsterInvalidDefinitionError:
        return True
    return False


def translated(translation: str) -> str:
    return document(f"{CLUSTER}\n{STREAM.strip()}\ntranslation:\n{translation}")


class TestOfDagster(Cases):
    """Dagster's own cases for what a translation can change."""

    __test__ = True

    def test_translation(
        self,
        attributes: Mapping[str, Any],
        assertion: Callable[[dg.AssetSpec], bool],
        key_modifier: Callable[[dg.AssetKey], dg.AssetKey] | None,
    ) -> None:
        text = document(f"{CLUSTER}\n{STREAM.strip()}\ntranslation: {yaml_of(attributes)}")
        key = (key_modifier or (lambda key: key))(dg.AssetKey("clicks"))
        if {"code_version", "partitions_def"} & {*attributes} or key.path[-1] != "clicks":
            [said] = [each for each in errors(text) if each.startswith("DeclarationError: /")]
            assert "translation: " in said
            return
        if len(attributes.get("kinds", ())) > 1 and three_kinds_at_most():
            assert any("clicks': kinds = " in each for each in errors(text))
            return
        with loaded(text) as (_, defs):
            assert assertion(defs.resolve_asset_graph().get(key).to_asset_spec())


def yaml_of(value: Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=True)).strip()


def test_a_translation_knows_the_stream() -> None:
    text = translated(
        """\
  group_name: "{{ stream.name }}_group"
  key_prefix: [shop]
  owners: ["team:streaming"]
  kinds: [kafka]
  tags: {program: "{{ stream.name }}_py"}
  description: Clicks.
"""
    )
    with loaded(text) as (_, defs):
        spec = defs.resolve_asset_graph().get(dg.AssetKey(["shop", "clicks"]))
        assert spec.group_name == "clicks_group"
        assert [*spec.owners] == ["team:streaming"]
        assert {"spark", "streaming", "kafka"} <= {*spec.kinds}
        assert spec.tags["program"] == "clicks_py"
        assert spec.description == "Clicks."
        # Health checks and the sensor are those of that asset.
        assert {str(key.asset_key.path) for key in defs.resolve_asset_graph().asset_check_keys} == {
            "['shop', 'clicks']"
        }


@pytest.mark.parametrize(
    ("translation", "fault"),
    [
        ("key: other", "key = 'other': must end in the name of the stream; rename the stream, or"),
        ("code_version: '3'", "drop code_version; a stream has none"),
    ],
)
def test_what_a_stream_can_not_be_is_refused(translation: str, fault: str) -> None:
    said = next(
        each for each in errors(translated(f"  {translation}")) if "DeclarationError: /" in each
    )
    assert "StructuredStream 'clicks': " in said
    assert fault in said


def test_a_subclass_has_its_own_asset() -> None:
    text = document(
        f"{CLUSTER}\n{STREAM.strip()}\nteam: data",
        type_name=f"{TeamStreams.__module__}.TeamStreams",
    )
    with loaded(text) as (_, defs):
        [owner] = defs.resolve_asset_graph().get(dg.AssetKey("clicks")).owners
        assert owner == "team:data"


def test_post_processing_changes_the_assets() -> None:
    rest = """\
post_processing:
  assets:
    - target: "key:clicks"
      attributes: {group_name: web, tags: {tier: gold}}
"""
    with loaded(document(CLUSTER + STREAM, rest=rest)) as (_, defs):
        spec = defs.resolve_asset_graph().get(dg.AssetKey("clicks"))
        assert (spec.group_name, spec.tags["tier"]) == ("web", "gold")
        assert defs.resolve_asset_graph().get(dg.AssetKey("fleet")).group_name != "web"
        dg.Definitions.validate_loadable(defs)


def test_it_is_made_in_python_as_well() -> None:
    from dagster.components.testing.utils import component_defs

    from dagster_sparkscale import LocalCluster
    from tests.fakes import structured

    defs = component_defs(component=SparkStreams(streams=[structured()], cluster=LocalCluster()))
    assert defs.resolve_asset_graph().get(dg.AssetKey("clicks"))
