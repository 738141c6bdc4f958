"""`python -m benchmarks.policies.search [POLICY ...]`: the best settings of all, into `tuned.json`.

The same search for every policy: of all combinations of the values that `contestants.py` names for
it, as many as `BUDGET` by chance, and its default; each on the loads for tuning; the one with the
lowest score (`front.score`). The loads that are reported play no part. With names of policies only
these are searched, and the others stay as they are in the file.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from benchmarks.policies import playing
from benchmarks.policies.contestants import CONTESTANTS, Contestant, Settings, named
from benchmarks.policies.front import points, score

TUNED = Path(__file__).parent / "tuned.json"
BUDGET = 12
SEED = 1


def candidates(contestant: Contestant) -> list[Settings]:
    """The settings that are tried, the default first."""
    grid = contestant.grid()
    draw = random.Random(f"{SEED} {contestant.name}")
    chosen = draw.sample(grid, BUDGET) if len(grid) > BUDGET else grid
    return [contestant.default, *({**contestant.default, **each} for each in chosen)]


def tuned() -> dict[str, Settings]:
    """The settings that were found, by the policy's name."""
    kept: dict[str, dict[str, Any]] = json.loads(TUNED.read_text())
    return {name: each["settings"] for name, each in kept.items()}


def search(contestant: Contestant, hours: dict[str, float]) -> dict[str, Any]:
    """The best of the candidates, and what it scored.

    Args:
        hours: executor-hours of the oracle, by the load.
    """
    found, loads = candidates(contestant), playing.of("tune")
    entries = [
        [playing.entry(contestant.name, settings, case.name) for case in loads]
        for settings in found
    ]
    rows = playing.rows([each for of in entries for each in of], hours)
    played = [[(case, rows[e]) for case, e in zip(loads, of, strict=True)] for of in entries]
    scores = [score(each) for each in played]
    best = min(range(len(found)), key=lambda index: scores[index])
    return {
        "settings": found[best],
        "score": round(scores[best], 3),
        "score of the default": round(scores[0], 3),
        "tried": len(found),
        "tune": {
            group: {"late": round(of.late, 2), "cost": round(of.cost, 3)}
            for group, of in points(played[best]).items()
        },
    }


def main(names: list[str]) -> int:
    chosen = [named(name) for name in names] or CONTESTANTS
    kept: dict[str, Any] = json.loads(TUNED.read_text()) if TUNED.exists() else {}
    hours = playing.oracles(case.name for case in playing.of("tune"))
    for contestant in chosen:
        kept[contestant.name] = found = search(contestant, hours)
        print(contestant.name, json.dumps(found), flush=True)
        in_order = {each.name: kept[each.name] for each in CONTESTANTS if each.name in kept}
        TUNED.write_text(json.dumps(in_order, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
