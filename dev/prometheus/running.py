"""Runs Prometheus for a while."""

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from dev.prometheus.building import program


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs."""

    port: int
    log: Path

    def asked(self, path: str) -> Any:
        """What its API answers; None: it does not answer yet.

        Raises:
            ValueError: it does not understand what it is asked.
        """
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}") as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            if error.code == HTTPStatus.BAD_REQUEST:
                raise ValueError(f"{path}: {error.read().decode()}") from None
            return None
        except OSError:
            return None

    def values(self, query: str) -> dict[frozenset[tuple[str, str]], float]:
        """The present values of an expression, by labels; empty: there are none yet."""
        data = self.asked(f"query?query={quote(query)}") or {"result": []}
        return {
            frozenset(each["metric"].items()): float(each["value"][1]) for each in data["result"]
        }


@contextmanager
def prometheus(config: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, which ends with the block.

    Raises:
        InstallFailed: it can't be built here.
    """
    server = program("prometheus")
    (folder / "prometheus.yml").write_text(config)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = folder / "prometheus.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                str(server),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Prometheus(port, log)
    finally:
        process.terminate()
        process.wait()
