"""What a master is asked, so that a worker runs a driver."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.launch.driver_zip import parcel
from dagster_sparkscale.clusters.standalone.submission import (
    OPENED,
    later_settings,
    refuse_if_too_large,
    submission,
)
from dagster_sparkscale.driver import shipped

SETTINGS = {
    "spark.app.name": "clicks",
    "spark.master": "spark://h:7077",
    "spark.driver.memory": "2g",
    "spark.driver.supervise": "true",
    "spark.driver.extraJavaOptions": "-Dsome=option",
    "spark.jars.packages": "org.example:source:1.0",
    "spark.hadoop.fs.s3a.secret.key": "hunter2",
    "spark.sql.shuffle.partitions": "8",
}


def asked(code: bytes = b"code", start: bytes = b"start", **environment: str) -> dict:
    return submission(
        mark="clicks/7/abc",
        master="spark://h:7077",
        python="/opt/python3",
        settings=SETTINGS,
        environment=environment,
        code=code,
        start=start,
    )


def sent(body: dict, name: str) -> bytes:
    variables = body["environmentVariables"]
    parts = [variables[f"{name}{n}"] for n in range(len(variables)) if f"{name}{n}" in variables]
    return base64.b64decode("".join(parts))


def test_what_becomes_arguments_holds_nothing_secret() -> None:
    body = asked(start=b"hunter2", PASSWORD="hunter2")
    visible = json.dumps([body["appArgs"], body["sparkProperties"]])
    assert "hunter2" not in visible and "c3RhcnQ" not in visible
    assert body["appArgs"][-1] == "clicks/7/abc"


def test_a_worker_is_asked_for_sparks_jvm_that_starts_python_by_a_shell() -> None:
    body = asked()
    arguments = body["appArgs"]
    assert " ".join(each for each in arguments if "\n" not in each) == (
        "--master spark://h:7077 --deploy-mode client --name clicks "
        "--conf spark.jars.packages=org.example:source:1.0 "
        "--conf spark.pyspark.driver.python=/usr/bin/env "
        "--conf spark.pyspark.python=/opt/python3 "
        "--class org.apache.spark.deploy.PythonRunner spark-internal "
        '/bin/sh  -c exec "$@" >>stderr 2>&1 sh /opt/python3 -c clicks/7/abc'
    )
    variables = body.pop("environmentVariables")
    assert variables == {
        "PYSPARK_PYTHON": "/opt/python3",
        "PYSPARK_DRIVER_PYTHON": "/usr/bin/env",
        "SPARKSCALE_CODE_0": "Y29kZQ==",
        "SPARKSCALE_START_0": "c3RhcnQ=",
    }
    assert {**body, "appArgs": []} == {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.3.0",
        "appResource": "",
        "mainClass": "org.apache.spark.deploy.SparkSubmit",
        "appArgs": [],
        "sparkProperties": {
            "spark.driver.memory": "2g",
            "spark.driver.supervise": "false",
            "spark.driver.extraJavaOptions": f"{OPENED} -Dsome=option",
            "spark.master": "spark://h:7077",
            "spark.app.name": "clicks",
            "spark.submit.deployMode": "cluster",
        },
    }


def test_the_jvm_is_given_what_it_needs_before_python_runs() -> None:
    body = asked()
    assert body["sparkProperties"]["spark.driver.memory"] == "2g"
    arguments = body["appArgs"]
    said = [arguments[at + 1] for at, each in enumerate(arguments) if each == "--conf"]
    assert "spark.jars.packages=org.example:source:1.0" in said
    # Over what spark-defaults.conf has on a worker.
    assert "spark.pyspark.driver.python=/usr/bin/env" in said
    assert "spark.pyspark.python=/opt/python3" in said
    assert later_settings(SETTINGS) == {
        "spark.app.name": "clicks",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
        "spark.sql.shuffle.partitions": "8",
    }


def test_a_driver_is_never_supervised_whatever_its_settings_say() -> None:
    assert asked()["sparkProperties"]["spark.driver.supervise"] == "false"


def test_the_environment_is_the_streams_own_and_names_one_python() -> None:
    environment = asked(TOPIC="clicks", PYSPARK_PYTHON="another")["environmentVariables"]
    assert environment["TOPIC"] == "clicks"
    assert environment["PYSPARK_PYTHON"] == "/opt/python3"


@given(st.binary(max_size=400_000))
def test_no_variable_is_longer_than_linux_takes(content: bytes) -> None:
    body = asked(code=content, start=content)
    assert all(len(value) < 128 * 1024 for value in body["environmentVariables"].values())
    assert sent(body, "SPARKSCALE_CODE_") == sent(body, "SPARKSCALE_START_") == content


def test_the_code_fits_and_a_program_that_does_not_is_refused() -> None:
    refuse_if_too_large(parcel(), b"")
    assert len(parcel()) < 400_000
    with pytest.raises(ClusterError, match=r'too large .*"local:///path/of/it\.py"'):
        refuse_if_too_large(parcel(), b"x" * 1_000_000)


def test_what_is_sent_unpacks_itself_where_there_is_nothing_but_python(tmp_path: Path) -> None:
    start = {"files": {"token": "hunter2"}, "settings": {}, "options": ["--help"]}
    body = asked(code=parcel(), start=shipped.pack(start))
    arguments = body["appArgs"]
    _, _, *command = arguments[arguments.index("/bin/sh") :]
    at = command.index("/opt/python3")
    # Without Spark the driver fails; what watches it says so, and leaves nothing behind.
    done = subprocess.run(
        ["/bin/sh", *command[:at], sys.executable, "-I", "-S", *command[at + 1 :]],
        env=body["environmentVariables"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "No module named 'pyspark'" in (tmp_path / "stderr").read_text()
    told = shipped.last_report((tmp_path / "stdout").read_text())
    assert told is not None and told[shipped.EXIT]["code"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stderr", "stdout"]
