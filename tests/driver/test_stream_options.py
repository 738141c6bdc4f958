"""What a program gets of its stream's limits, wherever it runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.begin.stream_options import UnknownSource, options_of, stream_options

MAX = "maxOffsetsPerTrigger"


def key(source: str, option: str = MAX) -> str:
    return f"spark.sparkscale.options.{source}.{option}"


DECLARED = {
    "spark.sparkscale.sources": '["clicks", "views"]',
    key("clicks"): "1000",
    key("clicks", "maxTriggerDelay"): "60000ms",
    "spark.sparkscale.optionsx.clicks.y": "no",
    "spark.app.name": "x",
}


@pytest.mark.parametrize(
    ("source", "options"),
    [("clicks", {MAX: "1000", "maxTriggerDelay": "60000ms"}), ("views", {})],
)
def test_a_source_gets_what_is_declared_of_it(source: str, options: dict[str, str]) -> None:
    assert options_of(source, DECLARED) == options


def test_without_any_limits_every_source_gets_none() -> None:
    assert options_of("clicks", {"spark.app.name": "x"}) == {}


def test_a_program_that_is_submitted_by_hand_may_be_given_some() -> None:
    assert options_of("clicks", {key("clicks"): "5"}) == {MAX: "5"}


def test_the_name_of_an_option_may_have_dots() -> None:
    assert options_of("a", {key("a", "kafka.fetch.max.bytes"): "5"}) == {
        "kafka.fetch.max.bytes": "5"
    }


@pytest.mark.parametrize("source", ["Clicks", "orders", ""])
def test_a_source_that_is_not_declared_is_told_which_there_are(source: str) -> None:
    with pytest.raises(UnknownSource) as unknown:
        options_of(source, DECLARED)
    assert str(unknown.value) == (
        f"stream_options({source!r}): the stream's limits are of clicks, views; declare "
        f"limits={{{source!r}: SourceLimits(...)}}, or ask for one of these"
    )


class Context:
    """As a SparkContext has its settings."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def getConf(self) -> "Context":
        return self

    def getAll(self) -> list[tuple[str, str]]:
        return list(self._settings.items())


class Session:
    """As a SparkSession has them: `conf.getAll` came with Spark 4.0."""

    def __init__(self, conf: Any, context: Any = None) -> None:
        self.conf = conf
        if context is not None:  # none on Spark Connect
            self.sparkContext = context


class Conf:
    def __init__(self, settings: dict[str, str]) -> None:
        self.getAll = settings


def test_it_may_be_given_a_context_or_a_session_of_any_release() -> None:
    assert stream_options("clicks", Context(DECLARED))[MAX] == "1000"
    assert stream_options("clicks", Session(object(), Context(DECLARED)))[MAX] == "1000"
    assert stream_options("clicks", Session(Conf(DECLARED)))[MAX] == "1000"


@pytest.mark.clusters
@pytest.mark.spark
def test_a_real_program_gets_what_its_spark_was_given(tmp_path: Path) -> None:
    """As the documentation has it, by the public name, with and without limits."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "from dagster_sparkscale import stream_options\n"
        "print('before', stream_options('clicks'))\n"
        "for settings in ([], sys.argv[1:]):\n"
        "    builder = SparkSession.builder.master('local[1]')\n"
        "    builder = builder.config('spark.ui.enabled', 'false')\n"
        "    for setting in settings:\n"
        "        builder = builder.config(*setting.split('=', 1))\n"
        "    spark = builder.getOrCreate()\n"
        "    print('after', stream_options('clicks'), stream_options('clicks', spark),\n"
        "          stream_options('clicks', spark.sparkContext))\n"
        "    rows = spark.readStream.format('rate').options(**stream_options('clicks')).load()\n"
        "    print('a source', rows.isStreaming)\n"
        "    spark.stop()\n"
    )
    given = f"{key('clicks', 'rowsPerSecond')}=7"
    done = subprocess.run(
        [sys.executable, str(program), given], capture_output=True, text=True, check=True
    )
    options = {"rowsPerSecond": "7"}
    assert done.stdout.splitlines() == [
        *("before {}", "after {} {} {}", "a source True"),
        *(f"after {options} {options} {options}", "a source True"),
    ]
