"""Policies of scaling side by side, ours and those of other systems, on simulated streams.

Every policy decides by the same evaluations of the same stream (`dagster_sparkscale/backtest`),
with its default and with the best settings that one search for all has found on half of the loads
(`python -m benchmarks.policies.search`, kept in `tuned.json`). Late is the percent of the time
whose records were done later than two batch intervals after they came; cost is executor-hours /
those of an oracle, which knew the load. Of `CapacityPolicy`, tuned, in the mean of the loads of the
other half, the lower the better:

- `policy_smooth_late`, `policy_smooth_cost`, and the same of `bursty` and `onoff`;
- `policy_step_scale_ups`, `policy_step_minutes`: changes after a step from 2 to 16 executors'
  worth, and minutes until the last late batch that the step led to was done;
- `policy_dominated`: on how many of all loads a peer is better on both axes.

The numbers of all are in `results.csv`, and the front in `docs/policies.png`.
"""

from pathlib import Path

from benchmarks.figures import Figure

RESULTS = Path(__file__).parent / "results.csv"
KNOB = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 400.0, 1000.0)
"""Prices of lateness that are drawn."""


def measure() -> list[Figure]:
    from benchmarks.policies import playing, plot, results, search
    from benchmarks.policies.contestants import CAPACITY, CONTESTANTS, named
    from benchmarks.policies.front import points
    from benchmarks.policies.loads import GROUPS, cases

    found, tuned = cases(), search.tuned()
    hours = playing.oracles(case.name for case in found)
    settings = {
        results.label(each.name, setting): of
        for each in CONTESTANTS
        for setting, of in (("default", each.default), ("tuned", tuned[each.name]))
    }
    entries = {
        (label, case.name): playing.entry(label.rpartition(", ")[0], of, case.name)
        for label, of in settings.items()
        for case in found
    }
    reported = playing.of("report")
    knob = [
        [
            playing.entry(
                CAPACITY, {**named(CAPACITY).default, "price_of_lateness": price}, each.name
            )
            for each in reported
        ]
        for price in KNOB
    ]
    wanted = {*entries.values(), *(each for of in knob for each in of)}
    rows = playing.rows(sorted(wanted, key=str), hours)
    played = [
        results.Result(label, case, rows[entries[label, case.name]])
        for label in settings
        for case in found
    ]
    by_price = [
        points([(case, rows[each]) for case, each in zip(reported, of, strict=True)]) for of in knob
    ]
    plot.draw(played, {group: [of[group] for of in by_price] for group in GROUPS})
    RESULTS.write_text(results.as_csv(played))
    for half in results.HALVES:
        print(results.table(played, half), end="\n\n")
    print(results.moves(played), end="\n\n")
    return results.figures(played, settings)
