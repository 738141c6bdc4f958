"""What docs/cli.md shows of commands is what they say, where a cluster in memory will do."""

import pytest

from dagster_sparkscale.driver.wire import Limit
from tests.cli.terminal import Terminal
from tests.docs.pages import blocks
from tests.fakes import QUERY
from tests.state.saying import kept_by


def shown() -> dict[str, list[str]]:
    """The lines that follow each command of the page."""
    found: dict[str, list[str]] = {}
    said: list[str] = []
    for block in blocks("docs/cli.md"):
        for line in block.text.splitlines():
            if line.startswith("$ sparkscale "):
                said = found.setdefault(line.removeprefix("$ sparkscale "), [])
            elif line:
                said.append(line)
    return found


@pytest.mark.parametrize(
    ("command", "streams"),
    [
        ("scale clicks 40", "scaled(max_executors=4)"),
        ("scale clikcs 3", 'scaled(), structured("visits")'),
        ("limits clicks --rate 5 --source cliks", "scaled()"),
        ("reconfigure clicks 12 --dry-run", "stateful(key_groups=32)"),
        ("retune clicks", "read_once()"),
    ],
)
def test_what_the_page_shows_last_of_a_command_is_what_it_says(
    terminal: Terminal, command: str, streams: str
) -> None:
    terminal.declare(streams)
    terminal.kept().limits = (Limit("clicks", QUERY),)
    terminal.kept().queries = (kept_by(key_groups=32),)
    done = terminal.ask(*command.split())
    # The page has its commands in a folder that names the code location.
    assert done.output.splitlines()[-1].replace(" -f definitions.py", "") == shown()[command][-1]
