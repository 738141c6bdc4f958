"""Plays faults of real parts by pytest, and reads what came of each from its report."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.real.catalog import REAL

_ROOT = Path(__file__).parents[3]
_PLAYED = "tests/faults/real"


@dataclass(frozen=True)
class Seen:
    """What came of one fault."""

    held: bool
    text: str
    """What was seen; of one that did not hold, why."""
    seconds: float | None
    """Until it had recovered; None: that was not measured."""


def played(names: Sequence[str], *arguments: str) -> Mapping[str, Seen]:
    """Play these faults, one after the other; what can't be played here is left out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n0", _PLAYED, "-o", "python_files=soak_*.py"]
        command += ["-o", "timeout=0", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        if set(names) != set(REAL):
            command += ["-k", " or ".join(f"({name})" for name in names)]
        subprocess.run([*command, *arguments], cwd=_ROOT, check=False)
        found = ElementTree.parse(report).getroot().iter("testcase")
        return {name: seen for each in found for name, seen in _read(each) if name in names}


def _read(case: ElementTree.Element) -> list[tuple[str, Seen]]:
    name = case.get("name", "").partition("[")[2].removesuffix("]")
    if name not in REAL or case.find("skipped") is not None:
        return []
    told = {each.get("name"): each.get("value", "") for each in case.iter("property")}
    wrong = next((e for kind in ("failure", "error") for e in case.iter(kind)), None)
    seconds = float(told["seconds"]) if "seconds" in told else None
    if wrong is not None:
        return [(name, Seen(False, (wrong.get("message") or "").splitlines()[0], seconds))]
    return [(name, Seen(True, told.get("seen", ""), seconds))]
