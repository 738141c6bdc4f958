"""The driver's command line."""

import argparse
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

MAX_EXECUTORS = 10_000
"""No number of executors above this is taken for meant."""


@dataclass(frozen=True)
class Options:
    """The command line, checked."""

    stream: str
    epoch: int
    """The stream's fencing number: a request that carries another one is refused."""
    interval_ms: int
    """The declared batch interval, in milliseconds; used where Spark does not tell the real one."""
    initial_executors: int
    max_executors: int | None
    token: str
    program: Path
    arguments: tuple[str, ...] = ()
    announce: Path | None = None
    bind: str = "127.0.0.1"
    port: int = 0
    advertise: str | None = None
    tls: ssl.SSLContext | None = None
    """What the agent proves by that it is this driver's; None: it speaks HTTP without TLS."""
    record: str = ""
    """Id of the stream's record, by which the checkpoint's fence knows it; empty: it has none."""
    last_words: Path | None = None
    """File to leave its last words in, and in the log; `-`: in the log alone; None: neither."""
    succeeds: tuple[str, int] | None = None
    """Record and epoch of the last driver that is known to have taken the checkpoint, and has
    ended; None: of none it is known."""
    outwait: int = 0
    """Seconds to wait once the checkpoint is taken: that driver may run on until it sees that."""
    begun: Path | None = None
    """File with the object of Kubernetes that the one driver of this start makes; None: nobody but
    Dagster can start it."""
    term_seconds: int = 30
    """How long after a SIGTERM the program may take to end in good order."""

    def __repr__(self) -> str:
        return f"Options({self.stream!r}, epoch {self.epoch}, {self.program})"


def parse(argv: Sequence[str]) -> Options:
    """Read the command line.

    Raises:
        SystemExit: with code 2, after saying what is wrong, as argparse does.
    """
    parser = _parser()
    ours, arguments = _split(argv)
    given = parser.parse_args(ours)

    if not Path(given.program).is_file():
        parser.error(f"program: {given.program}: no such file")
    try:
        token, tls = _token(given.token_file), tls_of(given.certificate, given.key)
        _need_files(given)
    except ValueError as error:
        parser.error(str(error))
    options = {**vars(given), "token": token, "tls": tls, "arguments": tuple(arguments)}
    for name in ("announce", "last_words", "begun", "program"):
        options[name] = Path(options[name]) if options[name] else None
    return Options(**{each.name: options[each.name] for each in fields(Options)})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dagster_sparkscale.driver",
        description="Run a PySpark streaming program with an agent that reports on it and scales "
        "it. Spark settings come from the properties file that PYSPARK_SUBMIT_ARGS names.",
        allow_abbrev=False,
    )
    parser.add_argument("--stream", required=True, help="name of the stream")
    parser.add_argument("--epoch", required=True, type=_whole(0), help="fencing number")
    parser.add_argument("--interval-ms", required=True, type=_whole(1), help="batch interval")
    parser.add_argument("--initial-executors", required=True, type=_whole(1, MAX_EXECUTORS))
    parser.add_argument("--max-executors", type=_whole(1, MAX_EXECUTORS))
    parser.add_argument("--token-file", required=True, help="file with the token to ask for")
    parser.add_argument("--announce", help="file to write the agent's address to")
    parser.add_argument("--bind", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", default=0, type=_whole(0, 65535), help="0: any free port")
    parser.add_argument("--advertise", help="host to announce instead of the one listened on")
    parser.add_argument("--certificate", help="PEM file; with it the agent speaks TLS")
    parser.add_argument("--key", help="PEM file with the certificate's key, without a password")
    parser.add_argument(
        "--last-words", help="file for how it ended, told in the log too; -: in the log alone"
    )
    parser.add_argument("--begun", help="file with the ConfigMap that only one driver can make")
    parser.add_argument("--record", default="", help="id by which a checkpoint's fence knows it")
    parser.add_argument(
        "--succeeds", type=_record_and_epoch, help="RECORD:EPOCH that took it last, and has ended"
    )
    parser.add_argument(
        "--outwait",
        default=0,
        type=_whole(0, 600),
        help="seconds to wait for that one, which was not seen to end, to see that; default: 0",
    )
    parser.add_argument(
        "--term-seconds",
        default=30,
        type=_whole(1, 86_400),
        help="how long a graceful stop may take that a SIGTERM asks for; default: 30",
    )
    parser.add_argument("program", help="the PySpark program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _token(file: str) -> str:
    """The token in a file.

    Raises:
        ValueError: the file can't be read, or holds no token; the text names the option.
    """
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "must be ASCII text"
        raise ValueError(f"--token-file: {file}: {reason}") from None
    if len(token) < 16 or not token.isprintable() or " " in token:
        raise ValueError(f"--token-file: {file}: must hold one token of at least 16 characters")
    return token


def _need_files(given: argparse.Namespace) -> None:
    """See that the files and folders exist that the driver is to read and to write in.

    Raises:
        ValueError: one does not; the text names the option.
    """
    if given.begun and not os.path.isfile(given.begun):
        raise ValueError(f"--begun: {given.begun}: no such file")
    for option, file in (("--announce", given.announce), ("--last-words", given.last_words)):
        if file and not os.path.isdir(os.path.dirname(file) or "."):
            raise ValueError(f"{option}: {file}: its folder does not exist")


def tls_of(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """What a server speaks TLS by; None if it shall not.

    Raises:
        ValueError: the files are no certificate and key; says why.
    """
    if certificate is None or key is None:
        if certificate != key:
            raise ValueError("--certificate and --key: must be given both, or neither")
        return None
    for option, path in (("--certificate", certificate), ("--key", key)):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"{option}: {path}: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password="")  # or it would ask for one
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--certificate: {certificate}, --key: {key}: must be a certificate and its key, PEM, "
            f"the key without a password: {error}"
        ) from None
    return context


def _record_and_epoch(text: str) -> tuple[str, int]:
    record, _, epoch = text.rpartition(":")
    if not record or not epoch.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: must be a record's id, a colon and an epoch")
    return record, int(epoch)


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Our options and the program, and the program's own arguments, which argparse never sees: it
    would look for our options among them, and take out a `--`."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        # Each option of ours has one value, but these.
        at += 1 if "=" in argv[at] or argv[at] in ("--", "-h", "--help") else 2
    return argv[: at + 1], argv[at + 1 :]


class _whole:
    """An argparse type: a whole number within bounds."""

    def __init__(self, least: int, most: int | None = None) -> None:
        self.least, self.most = least, most

    def __call__(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = self.least - 1
        if number < self.least or (self.most is not None and number > self.most):
            upper = f" and at most {self.most}" if self.most is not None else ""
            raise argparse.ArgumentTypeError(
                f"{text!r}: must be a whole number of at least {self.least}{upper}"
            )
        return number
