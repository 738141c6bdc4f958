"""What the command takes from Dagster's private parts, all of it.

A release that has moved one of them costs the command alone, which then says so in a sentence.
"""

import sys
from typing import Any

import click
import dagster as dg

_LACKING = (
    f"Dagster {dg.__version__} lacks a part that this command needs ({{}}). It was tested with "
    "1.11 to 1.13: `pip install 'dagster<1.14'`. Streams, sensors and jobs need none of it: "
    "Dagster's pages go on, and their launchpad has all that this command changes"
)

try:
    from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
    from dagster._core.definitions.run_request import InstigatorType
    from dagster._core.definitions.selector import RepositorySelector
    from dagster._core.errors import DagsterExecutionInterruptedError, DagsterUserCodeLoadError
    from dagster._core.remote_origin import (
        CodeLocationOrigin,
        ManagedGrpcPythonEnvCodeLocationOrigin,
    )
    from dagster._core.run_coordinator import QueuedRunCoordinator
    from dagster._core.scheduler.instigation import (
        InstigatorState,
        InstigatorStatus,
        SensorInstigatorData,
        TickStatus,
    )
    from dagster._core.secrets.env_file import get_env_var_dict
    from dagster._core.storage.tags import MAX_RUNTIME_SECONDS_TAG
    from dagster._grpc.server import LoadedRepositories
    from dagster._utils.env import environ
    from dagster._utils.interrupts import capture_interrupts
    from dagster_shared.cli import WorkspaceOpts
except ImportError as error:
    raise SystemExit(f"sparkscale: {_LACKING.format(error)}") from None

__all__ = [
    "MAX_RUNTIME_SECONDS_TAG",
    "CodeLocationOrigin",
    "DagsterExecutionInterruptedError",
    "DagsterUserCodeLoadError",
    "InstigatorState",
    "InstigatorStatus",
    "InstigatorType",
    "ManagedGrpcPythonEnvCodeLocationOrigin",
    "QueuedRunCoordinator",
    "RepositorySelector",
    "SensorInstigatorData",
    "TickStatus",
    "WorkspaceOpts",
    "capture_interrupts",
    "environ",
    "get_env_var_dict",
    "hours_from_utc",
    "loaded_repositories",
    "workspace_opts_to_load_target",
]


_HOURS = {
    "postgresql": "extract(timezone from timestamptz '{} 12:00Z') / 3600.0",
    "mysql": "timestampdiff(second, '{} 12:00', from_unixtime({})) / 3600.0",
}
"""What each kind of server calls the hours that its clock is ahead of UTC on a day."""


def hours_from_utc(instance: dg.DagsterInstance) -> tuple[str, float, float] | None:
    """The kind of database server that is Dagster's storage, and how many hours its clock is ahead
    of UTC in January and in July; None: the storage is none, or does not say."""
    connect = getattr(instance.run_storage, "connect", None)
    if connect is None:
        return None
    with connect() as connection:
        kind: str = connection.dialect.name
        if kind not in _HOURS:
            return None
        days = (("2026-01-15", 1768478400), ("2026-07-15", 1784116800))
        asked = ", ".join(_HOURS[kind].format(*day) for day in days)
        winter, summer = map(float, connection.exec_driver_sql(f"SELECT {asked}").one())
    return kind, winter, summer


def loaded_repositories(pointer: Any) -> LoadedRepositories:
    """The repositories of a code location, loaded into this process.

    Raises:
        DagsterError: the repositories can't be loaded.
        click.ClickException: this Dagster loads them in another way.
    """
    try:
        return LoadedRepositories(pointer, None, [sys.executable, "-m", "dagster"], None)
    except TypeError as error:  # of its own arguments: what user code raises is a DagsterError
        raise click.ClickException(_LACKING.format(error)) from error
