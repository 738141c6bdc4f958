"""`serve`: pages of all streams in a browser, and their metrics for Prometheus, over HTTP."""

import re
import signal
import time
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import home, last_tick, pending_minutes
from dagster_sparkscale.cli.locations import Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import Finite, dagster_url_option
from dagster_sparkscale.serve.event_log import EventLog
from dagster_sparkscale.serve.fleet import Fleet, Watched
from dagster_sparkscale.serve.http import Server, is_loopback, read_token_file
from dagster_sparkscale.serve.page.site import Site

LISTEN = "127.0.0.1:9464"
_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
"""The port that OpenTelemetry's exporter for Prometheus has by default."""


@click.command()
@click.option(
    "--listen", metavar="HOST:PORT", default=LISTEN, help=f"Address and port. Default: {LISTEN}."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that who asks must show; read at each request. Needed where others "
    "reach the address.",
)
@click.option("--prefix", default="", help="Begins the paths, as a proxy passes them on.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=Finite(1),
    default=15.0,
    help="Between two looks at the agents, however often metrics are asked for. Default: 15.",
)
@dagster_url_option
@on_a_target
def serve(
    where: Target,
    listen: str,
    token_file: Path | None,
    prefix: str,
    every: float,
    dagster_url: str,
) -> None:
    """Serve a live page of all streams, and metrics for Prometheus, until interrupted.

    Changes nothing.
    """
    if find_spec("prometheus_client") is None:
        raise click.ClickException(
            "needs prometheus-client: `pip install 'dagster-sparkscale[metrics]'`"
        )
    address = _checked(listen, token_file, prefix)
    # Dagster has SIGTERM do what SIGINT does, and a shell has that ignored behind `&`.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began = time.time()
    without = home()
    if without.wrong:
        click.echo(f"Only what agents tell is served: {without.subject}: {without.text}", err=True)
    with ExitStack() as stack:
        clusters = [
            Watched(
                *(each.owner, each.streams, stack.enter_context(each.cluster())),
                last_tick=partial(last_tick, deployed=each),
                log=EventLog(began),
                pending=partial(pending_minutes, deployed=each),
            )
            for each in where.load()
        ]
        instance = None if without.wrong else instance_of_home
        fleet = Fleet(
            *(clusters, CAPABILITIES, instance, every),
            report=lambda why: click.echo(f"the event log can't be read: {why}", err=True),
        )
        try:
            server = Server(
                *(address, fleet.samples),
                token_file=token_file,
                prefix=prefix,
                site=Site(fleet, instance, dagster_url),
            )
        except OSError as error:
            raise click.ClickException(f"--listen {listen}: {error.strerror or error}") from None
        with server, suppress(KeyboardInterrupt):
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            # The first line was this one before there were pages: programs may read it.
            click.echo(f"http://{host}:{server.server_port}{prefix}/metrics")
            click.echo(f"http://{host}:{server.server_port}{prefix}/")
            server.serve_forever()


def _checked(listen: str, token_file: Path | None, prefix: str) -> tuple[str, int]:
    """The address to listen at, where all options go together.

    Raises:
        click.UsageError: they do not; names the option.
    """
    address = _address(listen)
    if token_file is not None:
        try:
            read_token_file(token_file)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--token-file") from None
    elif not is_loopback(address[0]):
        raise click.UsageError(
            f"--listen {listen}: others reach this address: give a token by --token-file, or "
            f"listen at {LISTEN}"
        )
    if prefix and not _PREFIX.fullmatch(prefix):
        raise click.BadParameter(
            f'{prefix!r}: must be as "/sparkscale": begin with a slash and not end with one, and '
            "have nothing but letters, digits, _, - and . between two",
            param_hint="--prefix",
        )
    return address


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise click.BadParameter(
            f"{listen!r}: must be an address, a colon and a port, as {LISTEN}",
            param_hint="--listen",
        )
    return host.strip("[]"), int(port)
