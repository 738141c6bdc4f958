"""`python -m benchmarks.policies POLICY [SETTING=VALUE ...]`: one policy on all loads, as a table.

For example `python -m benchmarks.policies "HPA on R" target=0.8`, or with a policy that is not
among those that are compared `python -m benchmarks.policies my_module:MyPolicy`.
"""

import json
import statistics
import sys

from benchmarks.policies import playing
from benchmarks.policies.contestants import named
from benchmarks.policies.loads import GROUPS, cases


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    contestant = named(arguments[0])
    changed = dict(each.split("=", 1) for each in arguments[1:])
    values = {name: json.loads(value) for name, value in changed.items()}
    settings = {**contestant.default, **values}
    found = cases()
    hours = playing.oracles(case.name for case in found)
    entries = {case.name: playing.entry(contestant.name, settings, case.name) for case in found}
    rows = playing.rows(list(entries.values()), hours)
    print(f"{contestant.name} {settings}")
    for group in GROUPS:
        for half in ("tune", "report"):
            these = [case for case in found if (case.group, case.half) == (group, half)]
            of = [rows[entries[case.name]] for case in these]
            for case, row in zip(these, of, strict=True):
                print(f"{group:7}{half:7}{case.name:34}{row.late:7.2f} %{row.cost:7.2f}", end="")
                print(f"{row.rescales:7.1f}/h{row.longest_delay:8.0f} s", end="")
                if row.scale_ups is None or row.late_minutes is None:
                    print()
                else:
                    print(f"  {row.scale_ups:.1f} ups, late for {row.late_minutes:.1f} min")
            late, cost = (statistics.fmean(getattr(row, n) for row in of) for n in ("late", "cost"))
            print(f"{group:7}{half:7}{'mean':34}{late:7.2f} %{cost:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
