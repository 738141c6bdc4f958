"""The command `sparkscale`: the streams of a code location from a terminal.

What changes a stream is a run of the same job that the launchpad has, so it is refused for the same
reasons, and shows in the UI. Exit codes: 0 done; 1 refused, failed, or something is wrong; 2 not
understood.
"""

import logging
import os
from typing import Any

import click
import dagster as dg

from dagster_sparkscale.cli.backtest import backtest_command, recommend
from dagster_sparkscale.cli.changes import CHANGES
from dagster_sparkscale.cli.demo import demo
from dagster_sparkscale.cli.doctor import doctor
from dagster_sparkscale.cli.events import events
from dagster_sparkscale.cli.explain import explain
from dagster_sparkscale.cli.init import init
from dagster_sparkscale.cli.locations import NOT_LOADED
from dagster_sparkscale.cli.logs import logs
from dagster_sparkscale.cli.private_dagster import environ, get_env_var_dict
from dagster_sparkscale.cli.receivers import receivers
from dagster_sparkscale.cli.report import report
from dagster_sparkscale.cli.serve import serve
from dagster_sparkscale.cli.status import status
from dagster_sparkscale.cli.steering import STEERING
from dagster_sparkscale.cli.usage import usage
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.version import __version__


class Commands(click.Group):
    """What a cluster or Dagster refuses reads as a sentence, not as a stack trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            came = super().invoke(ctx)
        except (ClusterError, dg.DagsterError) as error:
            raise click.ClickException(str(error)) from error
        if ctx.meta.get(NOT_LOADED):
            ctx.exit(1)
        return came


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sparkscale")
@click.pass_context
def main(context: click.Context) -> None:
    """Look at and change the streams of a Dagster code location.

    The code location is found as Dagster finds it: by -f or -m after the command, else by
    workspace.yaml or pyproject.toml in the current folder.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("dagster").setLevel(logging.ERROR)
    # As `dg dev` does.
    context.with_resource(environ(get_env_var_dict(os.getcwd())))


for command in (
    *(demo, status, doctor, logs, usage, serve, report, receivers, backtest_command, recommend),
    *(events, explain, init),
    *(*CHANGES, *STEERING),
):
    main.add_command(command)
