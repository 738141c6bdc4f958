"""A rig that a process of its own has asked for, and what is left of it when that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from dagster_sparkscale.clusters.host.processes import carrying
from dev.hadoop.settings import MARK
from tests.waiting import HANGS, wait_for

KEEPER = """\
import sys, time
from pathlib import Path
from {module} import tethered
with tethered(Path(sys.argv[1])) as address:
    print(address.mark, flush=True)
    time.sleep(900)
"""


def outlived_by_nothing(module: str, folder: Path, processes: int) -> None:
    """That many processes are there while who wanted the rig of `module` lives, and none after."""
    root = Path(__file__).parents[2]
    wanting = subprocess.Popen(
        [sys.executable, "-c", KEEPER.format(module=module), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert wanting.stdout is not None
    mark = wanting.stdout.readline().strip()
    assert len(carrying(MARK, mark.__eq__)) == processes
    wanting.send_signal(signal.SIGKILL)
    wanting.wait(HANGS)
    wait_for("all of it to end", lambda: not carrying(MARK, mark.__eq__))
