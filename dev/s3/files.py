"""An S3 server that keeps objects in files, VersityGW. It answers two to three times as fast as
moto's, by a client in Python, and takes minutes to build from its sources: for soak."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from dev.go_programs import GoProgram
from dev.processes import port_to_use
from dev.s3.server import KEY, ServerFailed

_MODULE = "github.com/versity/versitygw"
_PROGRAM = GoProgram(
    what="VersityGW",
    name="versitygw",
    source=Path(__file__).parent / "programs",
    module=_MODULE,
    takes="one to four minutes",
    package=f"{_MODULE}/cmd/versitygw",
)
_START_SECONDS = 60.0


@contextmanager
def in_files(folder: Path, port: int) -> Iterator[str]:
    """The URL of a server.

    Args:
        folder: takes the objects; its file system must have extended attributes.

    Raises:
        InstallFailed: it can't be built here.
        ServerFailed: it did not come up.
    """
    url = f"http://127.0.0.1:{port_to_use(port)}"
    as_root = ["--access", KEY, "--secret", KEY, "--port", url.removeprefix("http://")]
    command = [str(_PROGRAM.built()), "--quiet", "--keep-alive", *as_root, "posix", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _wait(process, url)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            requests.get(url, timeout=_START_SECONDS)
            return
        except requests.ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"VersityGW does not answer at {url}") from None
        time.sleep(0.05)
