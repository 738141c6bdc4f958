"""What a driver in cluster mode is submitted with."""

import ast
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as settings_of_tests
from hypothesis import strategies as st

from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.submission import (
    Files,
    Place,
    driver_arguments,
    environment,
    spark_settings,
    tags,
)
from tests.clusters.running import SECRET, stream

RECORD = replace(Record.new("ab12"), epoch=3, checkpoint="file:///c", executors=2)
FILES = Files(
    *(Path("/s") / name for name in ("token", "cert", "key", "env", "p.zip", "clicks.py"))
)
PLACE = Place(queue="etl", python="python3.11")


def call(**options: Any) -> Invocation:
    return Invocation(stream("clicks", **options), FILES.program)


def settings(place: Place = PLACE, **common: str) -> dict[str, str]:
    return spark_settings(call(), RECORD, common, place, FILES)


def test_it_is_found_by_its_tags() -> None:
    ours = [
        "sparkscale-ab12",
        "sparkscale-ab12-3",
        applications.of_checkpoint("file:///c"),
    ]
    assert tags(RECORD, ["team-a"]) == [*ours, "team-a"]
    assert tags(replace(RECORD, checkpoint=None), []) == ours[:2]
    place = replace(PLACE, tags=["team-a"])
    made = settings(place, **{"spark.yarn.tags": "theirs"})
    assert made["spark.yarn.tags"].split(",") == [*ours, "team-a", "theirs"]


def test_what_we_rely_on_can_not_be_set_otherwise() -> None:
    fixed = {
        "spark.submit.deployMode": "cluster",
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": "2",
        "spark.ui.enabled": "true",
        "spark.master": "yarn",
    }
    made = settings(**{name: "otherwise" for name in fixed})
    assert {name: made[name] for name in fixed} == fixed


def test_what_is_set_for_one_start_wins_over_the_clusters() -> None:
    once = replace(call(), settings={"spark.x": "2"})
    made = spark_settings(once, RECORD, {"spark.x": "1"}, PLACE, FILES)
    assert made["spark.x"] == "2"


def test_without_a_number_remembered_it_begins_with_what_is_declared() -> None:
    made = spark_settings(call(), replace(RECORD, executors=None), {}, PLACE, FILES)
    assert made["spark.executor.instances"] == "1"


def test_what_the_user_sets_wins_over_what_is_ours_by_default() -> None:
    assert settings()["spark.yarn.queue"] == "etl"
    assert settings()["spark.executor.maxNumFailures"] == "1000000"
    made = settings(**{"spark.yarn.queue": "mine", "spark.redaction.regex": "mine"})
    assert (made["spark.yarn.queue"], made["spark.redaction.regex"]) == ("mine", "mine")


def test_its_files_are_shipped_beside_those_of_the_user() -> None:
    made = settings(**{"spark.yarn.dist.files": "a.txt", "spark.submit.pyFiles": "lib.zip"})
    assert made["spark.submit.pyFiles"] == "/s/p.zip,lib.zip"
    assert made["spark.yarn.dist.files"] == (
        "/s/token#sparkscale-token,/s/cert#sparkscale-certificate,/s/key#sparkscale-key,"
        "/s/env#sparkscale-environment,/s/clicks.py,a.txt"
    )


def test_of_the_streams_environment_settings_have_what_finds_java_and_python_only() -> None:
    env = {"CLICKS_PASSWORD": SECRET, "PYTHONHOME": "/p", "JAVA_HOME": "/j", "SPARK_X": "1"}
    made = spark_settings(call(env=env), RECORD, {}, PLACE, FILES)
    ours = {name.rpartition(".")[2] for name in made if "appMasterEnv" in name}
    found_by = {"PYTHONHOME", "JAVA_HOME", "SPARK_X"}
    assert ours == {"PYSPARK_PYTHON", "PYTHONUNBUFFERED", "BASH_ENV", *found_by}
    assert not any(SECRET in value for name, value in made.items() if "appMasterEnv" in name)
    text = environment(env)
    assert SECRET in text and not any(name in text for name in found_by)


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.dictionaries(st.from_regex("MY_[A-Z]{1,5}", fullmatch=True), TEXTS, max_size=3))
@settings_of_tests(max_examples=30, deadline=None)
def test_what_bash_starts_has_each_variable_as_it_was_declared(env: dict[str, str]) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(environment(env))
        file.flush()
        # As the script by which YARN starts a container does.
        show = "import os, sys; sys.stdout.buffer.write(repr(dict(os.environb)).encode())"
        done = subprocess.run(
            ["/bin/bash", "-c", f"{shlex.quote(sys.executable)} -c '{show}'"],
            env={"BASH_ENV": file.name},
            stdout=subprocess.PIPE,
            check=True,
        )
    found = ast.literal_eval(done.stdout.decode())
    assert {name: value for name, value in found.items() if name.startswith(b"MY_")} == {
        name.encode(): value.encode() for name, value in env.items()
    }
    assert b"BASH_ENV" not in found


def test_what_spark_is_given_of_an_environment_its_pages_do_not_show() -> None:
    made = settings()
    assert made["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] == "python3.11"
    assert made["spark.executorEnv.PYSPARK_PYTHON"] == "python3.11"
    hidden = re.compile(made["spark.redaction.regex"])
    assert hidden.search("spark.yarn.appMasterEnv.TOPIC")
    assert hidden.search("spark.hadoop.fs.s3a.secret.key")
    assert not hidden.search("spark.yarn.queue")


def test_kerberos_and_the_staging_folder_are_handed_on_where_they_are_given() -> None:
    names = "spark.kerberos.principal", "spark.kerberos.keytab", "spark.yarn.stagingDir"
    assert not set(names) & set(settings())
    place = replace(PLACE, principal="p@R", keytab="/k", staging_dir="hdfs:///s")
    assert [settings(place)[name] for name in names] == ["p@R", "/k", "hdfs:///s"]


def test_the_command_line_names_files_and_holds_no_secret() -> None:
    given = driver_arguments(replace(call(), arguments=["-v"]), EpochStart(RECORD), "0.0.0.0")
    assert given[-2:] == ["clicks.py", "-v"]
    assert given[given.index("--token-file") + 1] == "sparkscale-token"
    assert given[given.index("--certificate") + 1] == "sparkscale-certificate"
    assert given[given.index("--key") + 1] == "sparkscale-key"
    assert given[given.index("--bind") + 1] == "0.0.0.0"
    assert given[given.index("--last-words") + 1] == "-"
    assert given[given.index("--record") + 1] == "ab12"
    assert SECRET not in " ".join(given)
