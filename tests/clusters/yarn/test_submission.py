"""What a driver in cluster mode is submitted with."""

import re
from dataclasses import replace
from pathlib import Path

from dagster_sparkscale.clusters.store import Record
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.submission import (
    Files,
    Place,
    driver_arguments,
    spark_settings,
    tags,
)
from tests.clusters.running import SECRET, stream

RECORD = replace(Record.new("ab12"), epoch=3, checkpoint="file:///c", executors=2)
FILES = Files(*(Path("/s") / name for name in ("token", "cert", "key", "p.zip", "clicks.py")))
PLACE = Place(queue="etl", python="python3.11")


def settings(place: Place = PLACE, **common: str) -> dict[str, str]:
    return spark_settings(stream("clicks"), RECORD, common, place, FILES)


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


def test_without_a_number_remembered_it_begins_with_what_is_declared() -> None:
    made = spark_settings(stream("clicks"), replace(RECORD, executors=None), {}, PLACE, FILES)
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
        "/s/clicks.py,a.txt"
    )


def test_the_environment_of_the_stream_is_the_drivers_and_its_pages_do_not_show_it() -> None:
    made = settings()
    assert made["spark.yarn.appMasterEnv.CLICKS_PASSWORD"] == SECRET
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
    given = driver_arguments(
        stream("clicks"), RECORD, ["--record", "ab12"], "0.0.0.0", Path("/s/clicks.py"), ["-v"]
    )
    assert given[-2:] == ["clicks.py", "-v"]
    assert given[given.index("--token-file") + 1] == "sparkscale-token"
    assert given[given.index("--certificate") + 1] == "sparkscale-certificate"
    assert given[given.index("--key") + 1] == "sparkscale-key"
    assert given[given.index("--bind") + 1] == "0.0.0.0"
    assert given[given.index("--last-words") + 1] == "-"
    assert given[given.index("--record") + 1] == "ab12"
    assert SECRET not in " ".join(given)
