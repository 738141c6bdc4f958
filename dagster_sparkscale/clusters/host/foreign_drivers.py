"""What works on a checkpoint on this host for another stream than the one that shall.

Drivers are found by what all their processes inherit: a mark of the checkpoint, the submission, and
the state folder that they were started from.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_sparkscale.clusters.host.processes import MARKER, carrying

if TYPE_CHECKING:
    import psutil

CHECKPOINT = "SPARKSCALE_CHECKPOINT"
"""Environment variable by which all that works on a checkpoint is found, whatever its stream."""
STATE_DIR = "SPARKSCALE_STATE_DIR"
"""Environment variable that says where it is remembered."""


@dataclass(frozen=True)
class Stranger:
    """A process that works on a checkpoint for another record."""

    pid: int
    submission: str
    """The mark of its submission, from `processes.marker`."""
    state_dir: str = ""
    """The state folder that started it; empty: not known."""

    @property
    def stream(self) -> str:
        return self.submission.partition(":")[0]

    def in_words(self, here: Path) -> str:
        """What it is, and how it is ended.

        Args:
            here: the state folder of who asks.
        """
        epoch = self.submission.partition(":")[2].partition(":")[0]
        text = f"process {self.pid}, a driver of {self.stream!r}, epoch {epoch}, that was started"
        if self.state_dir and os.path.realpath(self.state_dir) == os.path.realpath(here):
            return f"{text} from this state folder, in which it has ended: end that process first"
        elsewhere = "stop it in the deployment that started it, else its recovery brings it back"
        if self.state_dir:
            return f"{text} from another state folder, {self.state_dir}: {elsewhere}"
        return (
            f"{text} from another state folder, or before this one was emptied: {elsewhere}; when "
            "there is no such deployment, end that process"
        )


def marks(checkpoint: str, state_dir: Path) -> Mapping[str, str]:
    """The variables of a driver that works on `checkpoint`."""
    return {CHECKPOINT: checkpoint_mark(checkpoint), STATE_DIR: str(state_dir)}


def checkpoint_mark(checkpoint: str) -> str:
    """The hash that processes on a checkpoint carry: its name may hold a secret."""
    return sha256(checkpoint.encode()).hexdigest()[:32]


def strangers_on(checkpoint: str, record_id: str) -> list[Stranger]:
    """Find live processes of this user that work on that checkpoint for another record. Drivers
    come before their supervisors and JVMs.

    Raises:
        OSError: a process of this user hides its environment.
    """
    import psutil

    wanted = checkpoint_mark(checkpoint)
    drivers: list[Stranger] = []
    others: list[Stranger] = []
    for process in carrying(CHECKPOINT, lambda value: value == wanted):
        try:
            environment = process.environ()
            found = drivers if _is_driver(process) else others
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        submission = environment.get(MARKER, "")
        if submission.rpartition(":")[2] != record_id:
            found.append(Stranger(process.pid, submission, environment.get(STATE_DIR, "")))
    return [*drivers, *others]


def _is_driver(process: "psutil.Process") -> bool:
    # A supervisor has the driver's command too, behind its own.
    return process.cmdline()[1:3] == ["-m", "dagster_sparkscale.driver"]
