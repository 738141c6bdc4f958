"""What the REST server of a master is asked, so that a worker runs a driver. Pure.

The worker starts Spark's JVM, which starts Python by a shell, as that needs no file on the worker.
It writes into the JVM's log itself: what it says through the JVM is lost where both end at once.

    SparkSubmit --class org.apache.spark.deploy.PythonRunner spark-internal
                /bin/sh "" -c 'exec "$@" >>stderr 2>&1' sh python3 -c <unpack> <mark>

Code, settings and secrets travel in the environment: command lines show in process lists, and on
the pages and in the logs of master and worker; the environment does not. It may hold so many
variables, but none of more than 128 KiB, so what is larger stands in several.

What must not change: no secret is in the arguments or among the `sparkProperties`, which become
arguments too.
"""

import base64
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.launch.driver_zip import NAME

MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"
MOST = 1_000_000
"""Bytes of code and program, as they are sent. Linux gives a process 2 MiB for its arguments and
its environment, unless its stack is limited to less than 8 MiB."""
_CHUNK = 100_000
_STARTER = "/usr/bin/env"
"""What Spark takes for the driver's Python: it starts what follows."""
_CODE, _START = "SPARKSCALE_CODE_", "SPARKSCALE_START_"

_PACKAGES = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect"),
    *("java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic"),
    *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
    *("java.base/sun.security.action", "java.base/sun.util.calendar"),
    "java.security.jgss/sun.security.krb5",
)
OPENED = " ".join(
    [
        "-XX:+IgnoreUnrecognizedVMOptions",  # Java 8 has none of the others
        *(f"--add-opens={each}=ALL-UNNAMED" for each in _PACKAGES),
    ]
)
"""Packages of Java that Spark uses, and without which it does not start from Java 17 on. Its own
launcher opens them, but a master of Spark 3.5 starts a driver that came by REST without it."""

# Read by the JVM before Python runs, or by SparkSubmit, which fetches what is named there.
_OF_THE_JVM = ("spark.driver.", "spark.jars", "spark.submit.deployMode", "spark.master")

_UNPACK = f"""\
import base64, os, pathlib, sys, tempfile
def sent(name):
    parts = []
    while name + str(len(parts)) in os.environ:
        parts.append(os.environ.pop(name + str(len(parts))))
    return base64.b64decode("".join(parts))
folder = pathlib.Path(tempfile.mkdtemp(prefix="sparkscale-", dir=os.getcwd()))
code = folder / {NAME!r}
code.write_bytes(sent({_CODE!r}))
sys.path.insert(0, str(code))
from dagster_sparkscale.driver.shipped_main import main
sys.exit(main(folder, sent({_START!r})))
"""


def submission(
    *,
    mark: str,
    master: str,
    python: str,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    code: bytes,
    start: bytes,
) -> dict[str, Any]:
    """The body of `POST /v1/submissions/create`.

    Args:
        mark: tells this submission from all others; shows in the driver's command line.
        python: of driver and executors: a path on the workers, or a name to be found there.
        settings: all of Spark's; of these it has what is needed before Python runs.
        environment: of the driver. May be secret.
        code: what the driver needs and the worker may not have (`clusters/launch/driver_zip.py`).
        start: the arguments of `driver.shipped_main.main`. May be secret.
    """
    sent = {**_parts(_CODE, code), **_parts(_START, start)}
    name = settings["spark.app.name"]
    said = {key: value for key, value in settings.items() if key.startswith("spark.jars")}
    # Said here too, as a worker's spark-defaults.conf would win over the environment.
    said |= {"spark.pyspark.driver.python": _STARTER, "spark.pyspark.python": python}
    driver = {key: value for key, value in settings.items() if key.startswith("spark.driver.")}
    # The agent's fence needs one driver a start; supervised, it would be started again and again.
    driver["spark.driver.supervise"] = "false"
    options = driver.get("spark.driver.extraJavaOptions", "")
    driver["spark.driver.extraJavaOptions"] = f"{OPENED} {options}".strip()
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.3.0",
        "appResource": "",
        "mainClass": MAIN_CLASS,
        "appArgs": [
            *("--master", master, "--deploy-mode", "client", "--name", name),
            *(part for key in sorted(said) for part in ("--conf", f"{key}={said[key]}")),
            *("--class", "org.apache.spark.deploy.PythonRunner", "spark-internal"),
            *("/bin/sh", "", "-c", 'exec "$@" >>stderr 2>&1', "sh"),
            *(python, "-c", _UNPACK, mark),
        ],
        "sparkProperties": {
            **driver,
            "spark.master": master,
            "spark.app.name": name,
            "spark.submit.deployMode": "cluster",
        },
        "environmentVariables": {
            **environment,
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": _STARTER,
            **sent,
        },
    }


def later_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that the driver sets itself once Python runs: all that the JVM did not need."""
    return {key: value for key, value in settings.items() if not key.startswith(_OF_THE_JVM)}


def refuse_if_too_large(code: bytes, program: bytes) -> None:
    """Refuse a program that can't be sent.

    Raises:
        ClusterError: the submission is too large for a master.
    """
    size = (len(code) + len(program)) * 4 // 3
    if size > MOST:
        raise ClusterError(
            f"the program is too large to be sent with the start: with the driver's own code it "
            f"takes {size} of at most {MOST} bytes; put it on the workers, and declare it as "
            'program="local:///path/of/it.py"'
        )


def _parts(name: str, content: bytes) -> dict[str, str]:
    text = base64.b64encode(content).decode()
    starts = range(0, len(text), _CHUNK)
    return {f"{name}{number}": text[at : at + _CHUNK] for number, at in enumerate(starts)}
