"""What is to be done, in the words of a terminal."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import dagster_sparkscale
from dagster_sparkscale.cli.locations import Target, on_a_target
from dagster_sparkscale.cli.words import COMMANDS, in_a_terminal
from dagster_sparkscale.remedy import Remedy, WithRemedy

PACKAGE = Path(dagster_sparkscale.__file__).parent


def texts() -> Iterator[str]:
    """All that the library may say outside its command line, a {} for each value in it."""
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "cli" or path.name == "remedy.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
                )
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_there_is_a_command_for_each_remedy() -> None:
    assert set(COMMANDS) == set(Remedy)


def test_nothing_that_sends_people_to_a_page_of_dagster_is_forgotten() -> None:
    sends = re.compile(
        r"materialize (the|its)\b|(by|run|job) stop_orphan|whoever_declares_it: |stop job|use stop"
    )
    assert {text for text in texts() if " " in text and sends.search(text)} == set()


def test_the_stream_is_in_the_command() -> None:
    text = WithRemedy("driver 1 failed; giving up; mend it and ", Remedy.START_AGAIN)
    assert in_a_terminal(text, "web") == (
        "driver 1 failed; giving up; mend it and `sparkscale start web` starts it again"
    )


def test_what_a_terminal_would_obey_does_not_reach_it() -> None:
    text = "bad record \x1b]0;owned\x07 \x1b[2J \x9b2J \r\udc80\n\tat line 3: é 水 😀"
    said = in_a_terminal(text, "clicks")
    assert said == "bad record ?]0;owned? ?[2J ?2J ??\n\tat line 3: é 水 😀"


def test_other_text_stays_as_it_is() -> None:
    text = "target = 40: 'clicks' has a maximum of 4; {braces} and 100 %"
    assert in_a_terminal(text, "clicks") == text


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), ""),
        (("-f", "definitions.py"), " -f definitions.py"),
        (("--python-file", "my jobs.py"), " -f 'my jobs.py'"),
        (("-m", "a", "-m", "b", "--cluster", "west"), " -m a -m b --cluster west"),
    ],
)
def test_a_command_to_be_copied_is_pointed_to_the_code_location_as_the_one_in_progress(
    given: tuple[str, ...], named: str
) -> None:
    @click.command()
    @on_a_target
    def look(where: Target) -> None:
        click.echo(in_a_terminal(WithRemedy(Remedy.TAKE_OVER), "web"))

    env = {"DAGSTER_ATTRIBUTE": "defs"}  # which the next command finds by itself
    said = CliRunner().invoke(look, given, env=env).stdout
    assert said == f"`sparkscale start web --whoever-declares-it{named}`\n"


def test_only_commands_for_this_stream_get_its_options_and_only_once() -> None:
    text = (
        "pinned to 2; `sparkscale resume web pin` ends it, `sparkscale stop web-2` does not; by "
        "`sparkscale stop` elsewhere; `sparkscale status web -f definitions.py` follows it"
    )

    @click.command()
    @on_a_target
    def look(where: Target) -> None:
        click.echo(in_a_terminal(text, "web"))

    said = CliRunner().invoke(look, ["-f", "definitions.py"]).stdout
    assert said == text.replace("web pin`", "web pin -f definitions.py`") + "\n"
