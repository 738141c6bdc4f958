"""An hour of ten streams, one of each kind, on a local cluster with the whole Dagster and faults.

`soak_memory_growth`: what processes hold in the last quarter of the hour / in the second one, of
drivers, their JVMs, supervisors, daemon, code server and web server the kind that has grown most.
Compared are the processes that were there in both quarters. The picture in docs/soak.png is drawn
along with it. Where something else did not hold, the detail says what.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure

MINUTES = 60
SEED = 1
GOAL = 1.05
REPORT = "SPARKSCALE_SOAK_REPORT"
_ROOT = Path(__file__).resolve().parents[1]
PICTURE = _ROOT / "docs" / "soak.png"
_LARGE = ("samples", "heaps", "loads", "faults", "deeds")


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as folder:
        file = Path(folder) / "soak.json"
        command = [sys.executable, "-m", "pytest", "-n0", "tests/e2e/soak_ten.py"]
        command += ["-o", "python_files=soak_*.py", "-o", "timeout=0"]
        command += ["--minutes", str(MINUTES), "--seed", str(SEED)]
        # Ends with 1 where something did not hold.
        subprocess.run(command, cwd=_ROOT, env={**os.environ, REPORT: str(file)}, check=False)
        return figures(json.loads(file.read_text()))


def figures(report: dict[str, Any]) -> list[Figure]:
    """The figure of one play, of which the picture is drawn."""
    from tests.e2e.ten.picture import draw

    draw(report, PICTURE)
    growth = max(each["growth"] for each in report["kinds"].values())
    what: dict[str, int] = {}
    for _, _, fault, _ in report["faults"]:
        what[fault] = what.get(fault, 0) + 1
    detail = {key: value for key, value in report.items() if key not in _LARGE}
    detail |= {"faults": what, "by hand": len(report["deeds"])}
    return [Figure("soak_memory_growth", growth, "ratio", GOAL, "lower", detail)]


if __name__ == "__main__":
    from benchmarks.figures import write_report

    write_report(figures(json.loads(Path(sys.argv[1]).read_text())))
