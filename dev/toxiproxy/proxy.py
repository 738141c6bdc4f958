"""Toxiproxy, and the links that go through it. It is built from its sources, as no package of it is
at hand everywhere."""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import requests

from dev.daemons import Daemons, tail
from dev.go_programs import GoProgram
from dev.processes import port_to_use

_MODULE = "github.com/Shopify/toxiproxy/v2"
_PROGRAM = GoProgram(
    what="Toxiproxy",
    name="toxiproxy",
    source=Path(__file__).parent / "programs",
    module=_MODULE,
    takes="half a minute",
    package=f"{_MODULE}/cmd/server",
)
_START_SECONDS = 60.0
_ANSWERS_WITHIN = 10.0


class ToxiproxyFailed(RuntimeError):
    """It did not come up; carries the end of its log."""


@dataclass(frozen=True)
class Toxic:
    """What becomes of the bytes of one direction."""

    kind: str
    """As Toxiproxy calls it, such as latency."""
    direction: Literal["upstream", "downstream"]
    """upstream: from who connects to who listens."""
    attributes: Mapping[str, int]


class Link:
    """What listens at `address` and passes all on to one server, well at first."""

    def __init__(self, api: str, name: str, address: str) -> None:
        self._api, self._name = f"{api}/proxies/{name}", name
        self.address = address
        """Host and port."""

    @contextmanager
    def damaged(self, toxics: Sequence[Toxic]) -> Iterator[None]:
        """Open connections are damaged, too. Well again afterwards."""
        try:
            for number, toxic in enumerate(toxics):
                told = {
                    "name": str(number),
                    "type": toxic.kind,
                    "stream": toxic.direction,
                    "attributes": dict(toxic.attributes),
                }
                _ask("POST", f"{self._api}/toxics", told)
            yield
        finally:
            for each in _ask("GET", self._api)["toxics"]:
                _ask("DELETE", f"{self._api}/toxics/{each['name']}")


class Toxiproxy(Daemons):
    """Not started yet.

    Args:
        folder: takes its log.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "toxiproxy.log"
        self._port = port_to_use(0)
        self._api = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, built first where need be, and wait until it answers.

        Raises:
            InstallFailed: it can't be built here.
            ToxiproxyFailed: it has ended, or does not answer.
        """
        program = _PROGRAM.built()
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [str(program), "-host", "127.0.0.1", "-port", str(self._port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ToxiproxyFailed(f"Toxiproxy does not answer:\n{tail(self._log)}")
            time.sleep(0.05)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def link(self, name: str, to: str, port: int = 0) -> Link:
        """A link to a server.

        Args:
            to: host and port of the server, which need not be there yet.
            port: where the link listens; 0: anywhere.
        """
        told = {"name": name, "listen": f"127.0.0.1:{port}", "upstream": to, "enabled": True}
        return Link(self._api, name, _ask("POST", f"{self._api}/proxies", told)["listen"])

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self._api}/version", timeout=_ANSWERS_WITHIN).ok
        except requests.ConnectionError:
            return False


def _ask(method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
    answer = requests.request(method, url, json=body, timeout=_ANSWERS_WITHIN)
    answer.raise_for_status()
    return answer.json() if answer.content else None
