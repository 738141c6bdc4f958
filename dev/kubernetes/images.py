"""What a container has before its pod adds anything: Spark's own image, laid over this machine.

An image's name is not looked at, except that one which begins with `bad/` can't be had.
`dagster_sparkscale` can't be imported in a container that was not given it.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dagster_sparkscale.clusters.java import java_home, spark_home

ENTRYPOINT = "/opt/entrypoint.sh"
FOLDER = "/opt"
_SHELL = Path(__file__).parent / "image"


@dataclass(frozen=True)
class Mount:
    source: str
    target: str
    read_only: bool = False


def can_be_had(image: str) -> bool:
    return not image.startswith("bad/")


def mounts() -> list[Mount]:
    """Where the image's own files are here."""
    hidden = Path(sysconfig.get_path("purelib")).glob("__editable__.dagster_sparkscale*.pth")
    return [
        Mount(str(spark_home()), "/opt/spark"),
        Mount(str(_SHELL / "entrypoint.sh"), ENTRYPOINT, True),
        Mount(str(_SHELL / "decom.sh"), "/opt/decom.sh", True),
        Mount(str(_SHELL / "passwd"), "/etc/passwd", True),
        *(Mount("/dev/null", str(path)) for path in hidden),
    ]


def places() -> list[str]:
    """What all users of a container may use, whoever may here."""
    here = (sys.prefix, sys.base_prefix, java_home(), spark_home(), _SHELL.parents[2])
    return [str(Path(each).resolve()) for each in here]


def environment(passed_on: Iterable[str]) -> dict[str, str]:
    """The image's own environment.

    Args:
        passed_on: names of variables that it has from here.
    """
    own = Path(sys.executable).parent
    passed = {name: os.environ[name] for name in passed_on if name in os.environ}
    return passed | {
        "PATH": f"{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": "/opt/spark",
    }
