"""What was tried of each fault between the library and a cluster in memory, and how much held.

- `two_drivers`: schedules in which two drivers worked on one checkpoint, of at least 10,000;
- `faults_tried`: faults under which a stream has lived its life, each by hundreds of schedules;
- `faults_held`: of these, those whose every schedule has kept what `docs/faults.md` lists.

Counts, not ratios: there is nothing to compare them with. The table in `docs/faults.md` is written
along with them.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure

SCHEDULES = 530
"""Of each fault: more than 10,000 in all."""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as folder:
        file = Path(folder) / "tried.json"
        play = (sys.executable, "-m", "tests.faults", "--all", str(SCHEDULES), "--json", str(file))
        subprocess.run(play, check=False)  # ends with 1 where something did not hold
        tried = json.loads(file.read_text())
    sums = {what: sum(each[what] for each in tried) for what in ("schedules", "operations")}
    broken = {each["fault"]: each["broken"] for each in tried if each["broken"]}
    two = sum(each["two_drivers"] for each in tried)
    calls = {each["fault"]: each["calls"] for each in tried}
    return [
        Figure("two_drivers", two, "schedules", 0, "lower", sums),
        Figure("faults_tried", len(tried), "faults", 21, "higher", {"calls that met it": calls}),
        Figure(
            *("faults_held", len(tried) - len(broken), "faults", len(tried), "higher"),
            {**sums, "did not hold, by seed": broken},
        ),
    ]
