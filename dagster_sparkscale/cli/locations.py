"""Finds the streams of a code location: loads it into this process, as a code server does."""

import difflib
import functools
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import click
import dagster as dg
from click.core import ParameterSource

from dagster_sparkscale.cli.private_dagster import (
    CodeLocationOrigin,
    DagsterUserCodeLoadError,
    ManagedGrpcPythonEnvCodeLocationOrigin,
    WorkspaceOpts,
    loaded_repositories,
    workspace_opts_to_load_target,
)
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.names import STREAMS
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.private_dagster import carried

NOT_LOADED = "dagster_sparkscale.not_loaded"
"""Key of a command's `meta`: there, if a code location could not be loaded."""
NAMED = 20
"""Streams that are named at most where there is none of a name."""
_NO_HOME = (
    "DAGSTER_HOME is not set, so there is no Dagster to record the run in: set it to the folder "
    "that dagster-webserver and dagster-daemon run with, `export DAGSTER_HOME=/path/to/it`"
)


@dataclass(frozen=True, eq=False)
class Deployed:
    """The streams of one cluster of a code location."""

    location: str
    """Dagster's name of the code location."""
    repository: dg.RepositoryDefinition
    streams: Streams

    @property
    def owner(self) -> str:
        """Code location and cluster, as they are remembered with each start."""
        return self.streams.owner(self.location)

    @contextmanager
    def cluster(self) -> Iterator[ClusterManager]:
        """The cluster manager, its settings read.

        Raises:
            ClusterError: the cluster refuses its fields, or a variable is not in the environment.
        """
        key = self.streams.cluster_key
        resource = self.repository.get_top_level_resources()[key]
        with ExitStack() as stack:
            try:
                resources = stack.enter_context(dg.build_resources({key: resource}))
            except dg.DagsterError as error:
                raise ClusterError(f"{self.owner}: {_cause(error)}") from error
            yield getattr(resources, key)


@dataclass(frozen=True)
class Target:
    """The code locations, and those of their clusters, that a command is about."""

    workspace: WorkspaceOpts
    cluster: str | None = None
    """Key of a cluster, or code location and key with a slash between; None: all."""

    def load(self) -> list[Deployed]:
        """All clusters with streams. Goes on without code locations that can't be loaded, says
        which, and has the command end with 1 whatever else comes of it.

        Raises:
            click.ClickException: no code location can be loaded, or there are no streams.
        """
        found, faults = self.load_each()
        if faults and not found:
            raise click.ClickException("\n".join(faults))
        for fault in faults:
            click.echo(f"Error: {fault}", err=True)
            click.get_current_context().meta[NOT_LOADED] = True
        return found

    def load_each(self) -> tuple[list[Deployed], list[str]]:
        """All clusters with streams, and what is wrong with code locations that can't be loaded.

        Raises:
            click.ClickException: there are no streams, and nothing is wrong.
        """
        found: list[Deployed] = []
        faults: list[str] = []
        for origin in self._origins():
            try:
                found += _load(origin)
            except click.ClickException as error:
                faults.append(error.message)
        if not found:
            if faults:
                return [], faults
            raise click.ClickException(
                "the code location has no streams: they are declared by build_defs"
            )
        asked = [one for one in found if self.cluster in (None, one.streams.cluster_key, one.owner)]
        if not asked:
            there = ", ".join(each.owner for each in found)
            unknown = "; ".join(["", *faults])
            raise click.UsageError(
                f"--cluster {self.cluster}: there is no such; there is {there}{unknown}"
            )
        return asked, faults

    def find(self, name: str) -> Deployed:
        """The cluster that has a stream of this name.

        Raises:
            click.UsageError: there is none of that name, or there are several.
            click.ClickException: one of that name was started, and is not declared; says what can
                be done with it.
        """
        declared = {each: [*each.streams.by_name] for each in self.load()}
        if not any(name in names for names in declared.values()):
            refuse_unknown(name, declared)
        return _only(name, declared)

    def remembering(self, name: str) -> Deployed:
        """The cluster that has a stream, or remembers one that is not declared any more.

        Raises:
            click.UsageError: there is none of that name, or there are several.
            ClusterError: a cluster does not say which streams it remembers.
        """
        there = {}
        for each in self.load():
            with each.cluster() as cluster:
                there[each] = [*each.streams.by_name, *cluster.store().streams()]
        return _only(name, there)

    def _origins(self) -> Sequence[CodeLocationOrigin]:
        try:
            return workspace_opts_to_load_target(self.workspace).create_origins()
        except click.UsageError as error:
            if self.workspace.specifies_target():
                raise
            raise click.UsageError(
                "no code location: name one by -f definitions.py or -m package.definitions, or "
                "call this in a folder whose workspace.yaml or pyproject.toml names one"
            ) from error
        except Exception as error:  # of a parser, a file, or of Dagster, which checks what is in it
            named = ", ".join(self.workspace.workspace or ()) or "workspace.yaml or pyproject.toml"
            what = "code location" if self.workspace.python_file else named
            raise click.ClickException(f"{what}: can't be read: {_sentence(error)}") from error


def instance_of_home() -> dg.DagsterInstance:
    """Open Dagster's instance in DAGSTER_HOME.

    Raises:
        click.ClickException: DAGSTER_HOME is not set, or its instance can't be used; says why.
    """
    if not os.environ.get("DAGSTER_HOME"):
        raise click.ClickException(_NO_HOME)
    try:
        return dg.DagsterInstance.get()
    except Exception as error:  # also of a YAML parser, a database, or an import
        raise click.ClickException(_sentence(error)) from error


def on_a_target(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a `Target`, from the options that `dagster` has too."""

    @functools.wraps(command)
    def with_target(**options: Any) -> Any:
        asked = {name: options.pop(name) for name in _POINTERS}
        target = Target(WorkspaceOpts(**asked), options.pop("cluster"))
        return command(target, **options)

    for option in reversed(_OPTIONS):
        with_target = option(with_target)
    return with_target


_POINTERS = ("workspace", "python_file", "module_name", "attribute", "working_directory")
_OPTIONS = (
    click.option(
        *("-f", "--python-file"),
        multiple=True,
        envvar="DAGSTER_PYTHON_FILE",
        help="Python file with the definitions.",
    ),
    click.option(
        *("-m", "--module-name"),
        multiple=True,
        envvar="DAGSTER_MODULE_NAME",
        help="Python module with the definitions.",
    ),
    click.option(
        *("-a", "--attribute"),
        envvar="DAGSTER_ATTRIBUTE",
        help="Name of the definitions in it. Default: found.",
    ),
    click.option(
        *("-d", "--working-directory"),
        envvar="DAGSTER_WORKING_DIRECTORY",
        help="Folder to import from. Default: the current one.",
    ),
    click.option(
        *("-w", "--workspace"),
        multiple=True,
        type=click.Path(exists=True),
        help="Workspace file. Default: workspace.yaml in the current folder.",
    ),
    click.option(
        "--cluster",
        metavar="KEY",
        help="Only this cluster, by the cluster_key of build_defs. Default: all.",
    ),
)


def as_given() -> str:
    """The options by which the command in progress was pointed to its code location, to go on with
    behind a command that is to be copied; empty: they were not given, and need not be."""
    context = click.get_current_context(silent=True)
    said = []
    for option in context.command.params if context is not None else ():
        assert context is not None
        source = context.get_parameter_source(name := str(option.name))
        if name in (*_POINTERS, "cluster") and source is ParameterSource.COMMANDLINE:
            values = context.params[name]
            for value in values if isinstance(values, tuple) else (values,):
                said.append(f" {option.opts[0]} {shlex.quote(str(value))}")
    return "".join(said)


def _only(name: str, there: Mapping[Deployed, Sequence[str]]) -> Deployed:
    """The cluster of a stream.

    Args:
        there: the streams of each cluster.
    """
    having = [deployed for deployed, names in there.items() if name in names]
    if len(having) > 1:
        owners = ", ".join(each.owner for each in having)
        raise click.UsageError(
            f"stream = {name!r}: is on several clusters, {owners}: name one by --cluster"
        )
    if not having:
        raise _no_such_stream(name, {each for names in there.values() for each in names})
    return having[0]


def refuse_unknown(name: str, deployed: Iterable[Deployed]) -> NoReturn:
    """Say what can be done about a name, or a pattern, that no declared stream has.

    Raises:
        click.UsageError: there is none of that name.
        click.ClickException: one of that name was started, and is not declared.
    """
    for each in deployed:
        if why := _not_declared(each, name):
            raise click.ClickException(f"stream = {name!r}: {why}")
    raise _no_such_stream(name, {each for one in deployed for each in one.streams.by_name})


def _no_such_stream(name: str, known: Collection[str]) -> click.UsageError:
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    some = ", ".join(sorted(known)[:NAMED])
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return click.UsageError(f"stream = {name!r}: no such stream; {meant}there is {some}{more}")


def _not_declared(deployed: Deployed, name: str) -> str | None:
    """What can be done with a stream that this cluster remembers and nobody declares here; None:
    nothing is known of it."""
    try:
        with deployed.cluster() as cluster:
            record, driver = cluster.store().read(name), cluster.find(name)
    except (ClusterError, dg.DagsterError):
        return None  # that there is no such stream is true all the same
    if record is None or driver is None:
        return None
    runs = f"driver {driver.epoch} is {driver.state.value} ({driver.where})"
    named = f"{name}{as_given()}"
    if not driver.state.alive:
        return (
            f"is not declared any more, and {runs}: `sparkscale logs {named}` shows its log; to "
            "start it, declare it again"
        )
    if record.owner == deployed.owner:
        return (
            f"is an orphan: {runs}, and no stream of that name is declared any more. `sparkscale "
            f"forget {named}` stops it; for all else declare it again"
        )
    whose = f"was started by {record.whose}" if record.whose else "who declares it is not known"
    return (
        f"is not declared here: {runs}, and {whose}. Call this for the code location that declares "
        f"it, by -f, -m or -w; where none does, `sparkscale forget {named} --whoever-declares-it` "
        "stops it"
    )


def _cause(error: BaseException) -> str:
    """What is behind an error of Dagster, which itself says where it came up, or adds a trace."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, dg.DagsterInvalidConfigError):
        said = (each.message.partition("\n\nStack Trace:")[0] for each in error.errors)
        return "; ".join(" ".join(each.split()) for each in said)
    return str(error)


def _sentence(error: Exception) -> str:
    """An error in one line, without the trace that Dagster may add."""
    said = str(error).partition("Stack Trace:")[0]
    return f"{type(error).__name__}: {' '.join(said.split())}"


def _inject_variables(location: str) -> str:
    """Read the variables that Dagster's instance has for a code location. Goes on where there is no
    such instance, as while its storage is down: streams can be looked at without.

    Returns:
        What to say of it where something lacks that may have been among them.
    """
    if not os.environ.get("DAGSTER_HOME"):
        return ""
    try:
        with instance_of_home() as instance:
            instance.inject_env_vars(location)
    except click.ClickException as error:
        return f"\n(without variables of Dagster's instance: {error.message})"
    except Exception as error:
        return f"\n(without variables of Dagster's instance: {_sentence(error)})"
    return ""


def _load(origin: CodeLocationOrigin) -> Iterator[Deployed]:
    name = origin.location_name
    if not isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin):
        raise click.ClickException(
            f"code location {name!r} runs as a server of its own: call this where its code is, and "
            f"give it by -w another workspace file, with `python_file` and `location_name: {name}`"
        )
    pointer = origin.loadable_target_origin
    if pointer.executable_path not in (None, sys.executable):
        raise click.ClickException(
            f"code location {name!r} has a Python of its own: call this by that one, "
            f"`{pointer.executable_path} -m dagster_sparkscale`"
        )
    folder = os.path.abspath(pointer.working_directory or os.getcwd())
    if folder not in sys.path:
        sys.path.append(folder)  # for what its functions import when they are called
    without = _inject_variables(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Dagster, for who develops definitions
            loaded = loaded_repositories(pointer)
    except SystemExit as error:
        raise click.ClickException(
            f"code location {name!r} can't be loaded: its definitions end the process, by "
            f"sys.exit({'' if error.code is None else repr(error.code)})"
        ) from error
    except dg.DagsterError as error:
        cause = error.user_exception if isinstance(error, DagsterUserCodeLoadError) else error
        raise click.ClickException(
            f"code location {name!r} can't be loaded: {type(cause).__name__}: {cause}\n"
            f"(`dagster definitions validate`, with the same options, shows where){without}"
        ) from error
    for repository in loaded.definitions_by_name.values():
        for sensor in repository.sensor_defs:
            streams = carried(sensor.metadata, STREAMS)
            if isinstance(streams, Streams):
                yield Deployed(name, repository, streams)
