"""`sparkscale serve` as a command: what it refuses, and how it ends."""

import signal
from pathlib import Path

import pytest
import requests

from dagster_sparkscale.serve.http import Server
from tests.cli.terminal import Terminal
from tests.serve.command import served
from tests.serve.scraping import found_in, of
from tests.waiting import HANGS


class TestTheCommand:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--listen", "0.0.0.0:9464"], "give a token by --token-file"),
            (["--listen", "9464"], "must be an address, a colon and a port"),
            (["--listen", "127.0.0.1:99999"], "must be an address, a colon and a port"),
            (["--token-file", "nowhere"], "nowhere: No such file"),
            (["--prefix", "streams"], "begin with a slash"),
            (["--prefix", "/a b"], "letters, digits"),
            (["--prefix", "/a/../b"], "letters, digits"),
            (["--prefix", "//a"], "letters, digits"),
            (["--every", "0"], "--every"),
        ],
    )
    def test_what_it_refuses(self, terminal: Terminal, words: list[str], said: str) -> None:
        done = terminal.ask("serve", *words)
        assert done.exit_code == 2 and said in done.output

    def test_a_token_that_anybody_guesses_is_refused(self, terminal: Terminal) -> None:
        (terminal.folder / "token").write_text("short")
        done = terminal.ask("serve", "--token-file", "token")
        assert done.exit_code == 2 and "at least 16 characters" in done.output

    def test_without_the_library_it_says_what_to_install(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("dagster_sparkscale.cli.serve.find_spec", lambda name: None)
        done = terminal.ask("serve")
        assert done.exit_code == 1 and "dagster-sparkscale[metrics]" in done.output

    def test_a_port_that_is_taken_is_named(self, terminal: Terminal) -> None:
        with Server(("127.0.0.1", 0), list) as taken:
            done = terminal.ask("serve", "--listen", f"127.0.0.1:{taken.server_port}")
        assert done.exit_code == 1 and f":{taken.server_port}: Address already" in done.output

    @pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
    def test_it_serves_until_it_is_ended(
        self, ends: signal.Signals, tmp_path: Path, made_home: Path
    ) -> None:
        with served(tmp_path, made_home, "--prefix", "/s") as (process, url):
            assert url.startswith("http://127.0.0.1:") and url.endswith("/s/metrics"), url
            answer = requests.get(url, timeout=HANGS)
            found = found_in(answer.text)
            assert of(found, "stream_state", stream="clicks", state="not started") == 1
            assert of(found, "event_log_read", cluster="definitions.py/spark_cluster") == 1
            process.send_signal(ends)
            assert process.wait(HANGS) == 0
