"""`python -m tests.faults`: the names of the faults; with a name, plays that fault, of those in
memory the schedule of a seed, and tells of it; `--all 530` plays so many schedules of each, and
`--real` each fault of real parts, and both write `docs/faults.md`."""

import argparse
import json
import os
import sys
from datetime import date
from pathlib import Path

from dev import runs
from tests.faults import table
from tests.faults.kinds import FAULTS
from tests.faults.playing import play
from tests.faults.real.catalog import REAL
from tests.faults.real.running import played as really_played
from tests.faults.running import all_tried


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted({**FAULTS, **REAL}), metavar="NAME")
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--rate", type=float, help="the share of calls that meet the fault")
    parser.add_argument("--all", type=int, metavar="SCHEDULES", help="of each fault")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what came of --all, too")
    parser.add_argument(
        "--real", nargs="*", metavar="BEGINNING", help="faults of real parts; of all names so begun"
    )
    given = parser.parse_args(arguments)
    if given.real is not None:
        return _real(tuple(given.real or [""]))
    if given.all:
        return _all(given.all, given.json)
    if given.name is None:
        for name, fault in {**FAULTS, **REAL}.items():
            print(f"{name:28} {fault.in_words}")
        return 0
    if given.name in REAL:
        [seen] = really_played([given.name], "-s").values()
        print(f"{given.name}: {seen.text}: {'held' if seen.held else 'did not hold'}")
        return 0 if seen.held else 1
    played = play(FAULTS[given.name], given.seed, given.rate)
    print("\n".join(played.story))
    for line in played.found:
        print(f"NOT HELD: {line}")
    print(f"{given.name}, seed {given.seed}: {'held' if played.held else 'did not hold'}")
    return 0 if played.held else 1


def _real(beginnings: tuple[str, ...]) -> int:
    names = [name for name in REAL if name.startswith(beginnings)]
    found = really_played(names, "-v")
    table.write_real(found, date.today())
    held = [name for name, seen in found.items() if seen.held]
    print(f"{len(held)} of {len(names)} faults held; see {table.PAGE}")
    for name in names:
        if name not in found:
            print(f"{name}: it can't be played here")
    return 0 if len(held) == len(names) else 1


def _all(schedules: int, file: Path | None) -> int:
    found = all_tried(range(1, schedules + 1), os.cpu_count() or 1)
    table.write(found, date.today())
    if file is not None:
        file.write_text(json.dumps([each.summary for each in found.values()]))
    broken = {name: each.broken for name, each in found.items() if each.broken}
    for name, seeds in broken.items():
        print(f"{name}: seeds {', '.join(map(str, seeds))}: {next(iter(seeds.values()))}")
    print(f"{len(found) - len(broken)} of {len(found)} faults held; see {table.PAGE}")
    return 1 if broken else 0


if __name__ == "__main__":
    runs.end_as_by_ctrl_c()
    sys.exit(main(sys.argv[1:]))
