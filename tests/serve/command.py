"""`sparkscale serve` as a process of its own, of one stream that was never started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def served(folder: Path, home: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the URL that it says.

    Args:
        home: is copied, and the copy is its DAGSTER_HOME.
    """
    (folder / "definitions.py").write_text(
        "from dagster_sparkscale import LocalCluster, build_defs\n"
        "from tests.fakes import structured\n"
        f"cluster = LocalCluster(state_dir={str(folder / 'state')!r})\n"
        "defs = build_defs([structured('clicks')], cluster)\n"
    )
    command = (sys.executable, "-m", "dagster_sparkscale", "serve", "-f", "definitions.py")
    with subprocess.Popen(
        # SIGINT is ignored, as a shell has it behind `&`.
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "--listen", "127.0.0.1:0", *words],
        cwd=folder,
        env={
            **os.environ,
            "DAGSTER_HOME": str(shutil.copytree(home, folder / "home")),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
