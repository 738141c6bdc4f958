"""What drivers on this host need: Java, Spark, the state folder, their programs."""

import ipaddress
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.folders import refuse_if_not_private
from dagster_sparkscale.clusters.java import java_home, java_version, refuse_if_too_old, spark_home
from dagster_sparkscale.declare.stream import Stream


def conditions_here(
    state: Path, java: str | None, streams: Sequence[Stream]
) -> Iterator[Condition]:
    """Check what drivers of `streams` need on this host.

    Args:
        state: the state folder.
        java: the declared home of Java; None: it is searched for.
    """
    try:
        home = java_home(java)
        yield Condition("Java", f"{java_version(home) or 'of an unknown version'}, {home}")
    except ClusterError as error:
        yield Condition("Java", "none that Spark runs on", str(error))
    try:
        yield _spark(spark_home())
    except ClusterError as error:
        yield Condition("Spark", "none that will do", str(error))
    yield state_folder(state)
    yield from programs(streams, program_here)
    for stream in streams:
        try:
            check_spark_of(stream)
        except ClusterError as error:
            yield Condition("Spark", f"of {stream.name}: too old", str(error))


def programs(streams: Sequence[Stream], find: Callable[[Stream], object]) -> Iterator[Condition]:
    """Yield a condition for each stream whose program can't be found."""
    for stream in streams:
        try:
            find(stream)
        except ClusterError as error:
            cure = "put it there, or declare where it is: its driver can't be started again"
            yield Condition("program", str(error), cure)


def in_the_clear(bind: str, tls: bool) -> Iterator[Condition]:
    """Warn where agents are asked over the network without TLS, which shows their tokens.

    Args:
        bind: the address that agents listen at.
        tls: whether agents speak TLS.
    """
    if not tls and not is_loopback(bind):
        yield Condition(
            "agents",
            f"asked over the network at {bind} without TLS: their tokens can be read there",
            "leave agent_tls = False out, then restart the streams",
            urgent=False,
        )


def is_loopback(address: str) -> bool:
    """Whether what listens at `address` can be reached from this host only."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name: who knows
        return False


def program_here(stream: Stream) -> Path:
    """Find the program of `stream` on this host. Each start does so, not the loading of the code:
    that may happen elsewhere, such as where an image is built.

    Raises:
        ClusterError: the program is no file here, or can't be looked up.
    """
    program = Path(stream.program).expanduser().absolute()
    try:
        there = stat.S_ISREG(program.stat().st_mode)
        fault = f"{program} is no file"
    except (FileNotFoundError, NotADirectoryError):
        there, fault = False, f"there is no file {program}"
    except OSError as error:
        there, fault = False, f"{program}: can't look at it: {error.strerror or error}"
    if not there:
        raise ClusterError(f"{stream.name}: program = {stream.program!r}: {fault}")
    return program


def check_spark_of(stream: Stream) -> None:
    """Refuse a stream whose own `env` names a Spark that is too old for it.

    Raises:
        ClusterError: that Spark is too old; says which release would do.
    """
    if home := stream.env.get("SPARK_HOME"):
        refuse_if_too_old(Path(home))


def _spark(home: Path) -> Condition:
    # Not needed by any run.
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        here = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Condition("Spark", f"of an unknown version, {home}")
    for line in metadata.requires("dagster-sparkscale") or ():
        needed = Requirement(line)
        if needed.name == "pyspark" and not needed.specifier.contains(here):
            cure = f"`pip install 'pyspark{needed.specifier}'`, then restart the streams"
            return Condition("Spark", f"{here}, which this release does not support", cure)
    return Condition("Spark", f"{here}, {home}")


def state_folder(state: Path) -> Condition:
    """Whether what is remembered can be kept there."""
    cure = "give this user the folder, or set state_dir to one that is its own"
    try:
        for folder in (state, state / "streams"):
            if not folder.exists():
                continue
            refuse_if_not_private(folder)
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                return Condition("state folder", f"{folder}: can't be read and written", cure)
        if state.exists():
            return Condition("state folder", str(state))
        above = next(parent for parent in state.parents if parent.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            return Condition("state folder", f"{state}: can't be made in {above}", cure)
        return Condition("state folder", f"{state}, made when a stream is first started")
    except OSError as error:
        return Condition("state folder", f"{state}: {error.strerror or error}", cure)
    except ClusterError as error:
        fault, _, advice = str(error).rpartition("; ")
        return Condition("state folder", fault, advice)
