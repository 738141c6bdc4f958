"""`sparkscale report`: the page of a stream as one file."""

import errno
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.cli.terminal import Terminal
from tests.observe.stored import store
from tests.serve.page.history import minutes


def test_it_is_written_with_what_is_stored(terminal: Terminal) -> None:
    with dg.DagsterInstance.get() as instance:
        for part in list(minutes())[-3:]:
            store(instance, dg.AssetKey("clicks"), part)
    assert terminal.ask("scale", "clicks", "4").exit_code == 0
    done = terminal.ask("report", "clicks", "--since", "6h", "--output", "out.html")
    assert (done.exit_code, done.output) == (0, "out.html\n")
    text = (terminal.folder / "out.html").read_text()
    assert "4 executors (1 to 10 allowed)" in text and "The 6 h before" in text
    assert "1 in this time, of which 1 reached their target" in text
    assert "Nothing was measured from" in text


def test_without_a_name_it_has_the_streams(terminal: Terminal) -> None:
    assert terminal.ask("report", "orders").output == "orders.html\n"
    text = (terminal.folder / "orders.html").read_text()
    assert "The 7 d before" in text and "Not measured in this time: " in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["odd"], "no such stream"),
        (["clicks", "--since", "soon"], "must be seconds or a duration"),
        (["clicks", "--since", "1s"], "must be at least 1min"),
        (["clicks", "--output", "nowhere/x.html"], "'nowhere' is no folder"),
        (["clicks", "--dagster-url", "javascript:alert(1)"], 'must begin with "http://"'),
    ],
)
def test_what_it_refuses(terminal: Terminal, words: list[str], said: str) -> None:
    done = terminal.ask("report", *words)
    assert done.exit_code == 2 and said in done.output


def test_a_folder_is_no_file(terminal: Terminal) -> None:
    done = terminal.ask("report", "clicks", "--output", str(terminal.folder))
    assert done.exit_code == 2


def test_where_the_disk_is_full_the_report_before_stays(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = terminal.folder / "clicks.html"
    file.write_text("the one before")
    before = sorted(terminal.folder.iterdir())

    def full(path: Path, text: str, **_: Any) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    done = terminal.ask("report", "clicks")
    assert done.exit_code == 2 and "No space left on device" in done.output
    assert file.read_text() == "the one before" and sorted(terminal.folder.iterdir()) == before
