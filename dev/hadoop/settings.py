"""What the settings of all of Hadoop's daemons have in common. Pure."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

HERE = "127.0.0.1"
MARK = "STREAMS_HADOOP_RIG"
"""Environment variable of all that a rig has started, its containers included."""


def xml(settings: Mapping[str, str]) -> str:
    """As Hadoop reads them."""
    lines = (
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    )
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])
