"""The JSON schema of the component: what editors complete, and `dg check yaml` checks."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dagster_sparkscale.components import SparkStreams
from tests.components.documents import CLUSTER, STREAM
from tests.components.test_spark_streams import EVERYTHING


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    model = SparkStreams.get_model_cls()
    assert model is not None
    return model.model_json_schema()


def faults(schema: dict[str, Any], text: str) -> dict[str, str]:
    found = Draft202012Validator(schema).iter_errors(yaml.safe_load(text))
    return {".".join(map(str, each.absolute_path)): each.message for each in found}


def test_it_is_a_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert {*schema["required"]} == {"cluster", "streams"}


def test_it_takes_all_that_can_be_declared(schema: dict[str, Any]) -> None:
    assert faults(schema, EVERYTHING) == {}


@pytest.mark.parametrize(
    ("more", "place", "message"),
    [
        ("executor_cores: 0", ".executor_cores", "0 is less than the minimum of 1"),
        ("executors: 0", ".executors", "0 is less than the minimum of 1"),
        ("batch_intervall: 3", "", "'batch_intervall' was unexpected"),
        ("receivers: 3", "", "'receivers' was unexpected"),
        ("recovery: {limit: 21}", ".recovery.limit", "21 is greater than the maximum of 20"),
        ("autoscale: {type: RatoPolicy}", ".autoscale.type", "is not one of ['CapacityPolicy'"),
        (
            "autoscale: {type: CapacityPolicy, price_of_lateness: 0}",
            ".autoscale.price_of_lateness",
            "0 is less than or equal to the minimum of 0",
        ),
        ("autoscale: {max_executors: 3}", ".autoscale", "'type' is a required property"),
        (
            "autoscale: {type: RatioPolicy, max: 3}",
            ".autoscale",
            "'max' was unexpected",
        ),
        (
            "limits: {a: {max_offsets_per_trigger: x}}",
            ".limits.a.max_offsets_per_trigger",
            "'x' is not of type 'integer'",
        ),
        ("calendar: {windows: [{cron: x}]}", ".calendar.windows.0", "'duration' is a required"),
        ("backtest: {days: 91}", "backtest.days", "91 is greater than the maximum of 90"),
        (
            "backtest: {policies: capacity}",
            "backtest.policies",
            "'capacity' is not of type 'array'",
        ),
        ("backtest: {policy: capacity}", "backtest", "'policy' was unexpected"),
        ("backtest: []", "backtest", "[] is not of type 'object'"),
    ],
)
def test_it_says_what_is_wrong_where_it_is(
    schema: dict[str, Any], more: str, place: str, message: str
) -> None:
    inside, of = ("", "") if more.startswith("backtest") else ("    ", "streams.0")
    said = faults(schema, f"{CLUSTER}{STREAM}{inside}{more}")
    assert [*said] == [f"{of}{place}"]
    assert message in said[f"{of}{place}"]


@pytest.mark.parametrize(
    "text",
    [
        CLUSTER + STREAM + '    executor_cores: "{{ env.CORES }}"',
        CLUSTER + STREAM + '    autoscale: "{{ policy }}"',
        CLUSTER + STREAM + "    autoscale: {type: shop.policies.Own, whatever: 3}",
        "cluster: '{{ cluster }}'\nstreams: '{{ streams }}'",
        "cluster: {type: shop.Cluster, a: 1}" + STREAM,
    ],
)
def test_it_takes_templates_and_classes_of_your_own(schema: dict[str, Any], text: str) -> None:
    assert faults(schema, text) == {}


def described(schema: Any) -> Iterator[tuple[str, str]]:
    """Each field with what is said of it."""
    if isinstance(schema, list):
        for each in schema:
            yield from described(each)
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            if isinstance(field, dict) and field.get("description"):
                yield name, field["description"]
        for each in schema.values():
            yield from described(each)


def test_fields_are_described_by_what_stands_below_them(schema: dict[str, Any]) -> None:
    said = dict(described(schema))
    assert said["checkpoint_location"].startswith("The place of the program's checkpoint")
    assert said["max_executors"].startswith("Most executors.")
    assert said["kubeconfig"].startswith("Path of a kubeconfig.")
