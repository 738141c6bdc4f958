"""Dagster's webserver on what the scene has stored."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.dagster_ui import DagsterUI
from tests.ports import kept_port
from tests.waiting import patience

ROOT = Path(__file__).parents[2]


@contextmanager
def served(home: Path) -> Iterator[str]:
    """The URL of a webserver on the instance at `home`; it ends with the block."""
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    command = [sys.executable, "-m", "dagster_webserver", "-m", "tests.ui.location"]
    with kept_port() as port, open(home / "webserver.log", "wb") as log:
        webserver = subprocess.Popen(
            [*command, "-h", "127.0.0.1", "-p", str(port)],
            cwd=ROOT,
            env={**os.environ, "DAGSTER_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

        def check() -> None:
            assert webserver.poll() is None, (home / "webserver.log").read_text()

        try:
            url = f"http://127.0.0.1:{port}"
            DagsterUI(url).wait_until_loaded(patience(120), check)
            yield url
        finally:
            webserver.terminate()
            webserver.wait()
