"""The page about migrating has each setting of Spark's streaming allocation, and what becomes of
it."""

import re

from dagster_sparkscale import RatioPolicy
from dagster_sparkscale.autoscale.spark_conf import _FIELDS, _INITIAL, _INSTANCES, _SWITCHES
from tests.docs.pages import code, tables, text

PAGE = "docs/migrating.md"


def test_each_setting_has_a_row_that_names_its_field() -> None:
    [table] = [each for each in tables(PAGE) if each.section.startswith("Streaming")]
    rows = {row[0].strip("`"): row[2] for row in table.rows}
    fields = {key: name for key, (name, _) in _FIELDS.items() if key != _INITIAL}
    fields[_INSTANCES] = "initial_executors"
    assert set(rows) == {*fields, *_SWITCHES}
    wrong = {key: name for key, name in fields.items() if f"RatioPolicy.{name}" not in rows[key]}
    assert wrong == {}


def test_the_defaults_of_the_table_are_those_of_the_policy() -> None:
    for name, default in re.findall(r"`RatioPolicy\.(\w+)` \(([\d.]+)(?: s)?\)", text(PAGE)):
        assert getattr(RatioPolicy(), name) == float(default)


def test_the_policy_that_is_written_out_is_the_one_of_the_settings() -> None:
    names = re.findall(r'"(spark\.streaming\.dynamicAllocation\.\w+)": "(\w+)"', text(PAGE))
    [written] = [each for each in code(PAGE) if each.startswith("RatioPolicy(interval")]
    assert RatioPolicy.from_spark_conf(dict(names)) == eval(written, {"RatioPolicy": RatioPolicy})
