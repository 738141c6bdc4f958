"""The origin of a stream's program: the image, this host, or a URL."""

import re
from dataclasses import dataclass

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.conditions import program_here
from dagster_sparkscale.clusters.kubernetes.manifests import BEGIN, CODE
from dagster_sparkscale.declare.stream import Stream

IN_THE_IMAGE = "local://"
LARGEST_PROGRAM = 600_000
"""Bytes. What else a ConfigMap may hold, by the bound of Kubernetes, is for our own code."""
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""What a file in a ConfigMap may be called."""
_FETCHED = ("http://", "https://")


@dataclass(frozen=True)
class Program:
    """A program as its driver is told of it."""

    place: str
    """A path in the driver's pod, or a URL that is fetched there."""
    name: str = ""
    """The name of the shipped file; empty: nothing is shipped."""
    content: bytes = b""


def program_of(stream: Stream) -> Program:
    """The program of `stream`.

    Raises:
        ClusterError: the program is missing, too large to ship, or has an unknown scheme.
    """
    source = stream.program
    if source.startswith(_FETCHED):
        return Program(source)
    if source.startswith(IN_THE_IMAGE):
        path = source.removeprefix(IN_THE_IMAGE)
        if not path.startswith("/"):
            raise ClusterError(
                f"{stream.name}: program = {source!r}: must be an absolute path in the image, such "
                "as local:///opt/app/clicks.py"
            )
        return Program(path)
    if "://" in source:
        raise ClusterError(
            f"{stream.name}: program = {source!r}: must be local:///path/in/the/image.py, an "
            "http:// or https:// URL, or a file here, which is shipped"
        )
    file = program_here(stream)
    if not _KEY.fullmatch(file.name) or file.name == BEGIN:
        raise ClusterError(
            f"{stream.name}: program = {source!r}: a file that is shipped must have a name of "
            f"letters, digits, dots, hyphens and underscores, other than {BEGIN}: rename it"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        fault = f"can't read it: {error.strerror}"
        raise ClusterError(f"{stream.name}: program = {source!r}: {fault}") from None
    if len(content) > LARGEST_PROGRAM:
        raise ClusterError(
            f"{stream.name}: program = {source!r}: {len(content)} bytes are too many to be shipped "
            f"in a ConfigMap (at most {LARGEST_PROGRAM}): put it into the image (local:///...)"
        )
    return Program(f"{CODE}/{file.name}", file.name, content)
