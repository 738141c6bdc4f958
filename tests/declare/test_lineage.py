"""What is declared of lineage reaches the driver, and no key is among it."""

import json

import pytest

from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.declare.drift import declared, drift
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.driver.lineage.plan import plan_of
from dagster_sparkscale.driver.settings import LINEAGE
from dagster_sparkscale.version import __version__
from tests.declare.refusing import refusal
from tests.fakes import dstream, structured

HERE = Lineage(url="http://marquez:5000")


def test_a_driver_is_told_its_server_and_its_names():
    lineage = Lineage(
        url="https://lineage/base/",
        namespace="prod",
        every="5 min",
        api_key_file="/run/secrets/lineage",
        outputs=[("postgres://db:5432", "shop.public.orders")],
    )
    stream = dstream("orders", key_prefix=("shop",), lineage=lineage)
    plan = plan_of(json.loads(settings(stream, 1, "local")[LINEAGE]))
    assert plan is not None
    assert (plan.url, plan.job) == ("https://lineage/base/api/v1/lineage", "shop.orders")
    assert (plan.namespace, plan.every, plan.version) == ("prod", 300, __version__)
    assert (plan.api_key_env, plan.api_key_file) == (None, "/run/secrets/lineage")
    assert plan.outputs == (("postgres://db:5432", "shop.public.orders"),)


def test_it_is_off_unless_it_is_declared():
    assert not [name for name in settings(structured(), 1, "local") if "lineage" in name]
    assert not [name for name in declared(structured()) if "lineage" in name]


def test_another_server_is_for_the_next_driver():
    before, now = declared(structured(lineage=HERE)), structured(lineage=Lineage(url="http://b"))
    assert drift(before, now) == (
        "lineage.url http://marquez:5000/api/v1/lineage -> http://b/api/v1/lineage",
    )
    assert "lineage.namespace none -> default" in drift(declared(structured()), now)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "marquez:5000"}, "must be an address with http:// or https:// and a host"),
        ({"url": "http://a b"}, "must be an address with http:// or https:// and a host"),
        (
            {"url": f"http://{64 * 'a'}.com"},
            "must be an address with http:// or https:// and a host",
        ),
        ({"url": "http://user:pw@marquez"}, "must have no password"),
        ({"url": "http://marquez?api_key=1"}, "must have no password"),
        (
            {"url": "http://m", "outputs": [("postgres://user:secret@db:5432", "shop.orders")]},
            "must have no password in a namespace",
        ),
        *(
            ({"url": "http://m", "inputs": [(namespace, "orders")]}, "must have no password in a")
            for namespace in (
                "redis://:secret@cache",
                "user:secret@db:5432",
                "jdbc:sqlserver://db;user=sa;password=secret",
                "jdbc:postgresql://db/shop?user=ana&Password=secret",
            )
        ),
        ({"url": "http://m", "every": 0.5}, "every = 0.5"),
        ({"url": "http://m", "endpoint": "a?b"}, "must be a path, such as api/v1/lineage"),
        (
            {"url": "http://m", "api_key_env": "a-key"},
            "must be the name of an environment",
        ),
        ({"url": "http://m", "api_key_file": "key"}, "must be an absolute path"),
        (
            {"url": "http://m", "api_key_file": "/key", "api_key_env": "KEY"},
            "api_key_file: drop it, or drop api_key_env",
        ),
        ({"url": "http://m", "inputs": [("a", "")]}, "inputs"),
    ],
)
def test_what_can_not_be_is_refused(fields: dict[str, object], said: str):
    assert said in refusal(Lineage, **fields)


@pytest.mark.parametrize("host", ["marquez_api", "10.0.0.1:5000", "[::1]:5000", "märz.example"])
def test_whatever_may_be_a_host_is_taken(host: str):
    assert Lineage(url=f"http://{host}").url == f"http://{host}"


@pytest.mark.parametrize(
    "namespace",
    ["kafka://b:9092", "abfss://lake@acc.dfs.core.windows.net", "oracle:thin:@db:1521", "a@b:1"],
)
def test_a_namespace_without_a_password_is_taken(namespace: str):
    assert Lineage(url="http://m", inputs=((namespace, "orders"),)).inputs[0][0] == namespace


def test_its_setting_is_made_by_the_field_alone():
    assert "it is set by lineage" in refusal(structured, spark_conf={LINEAGE: "{}"})
