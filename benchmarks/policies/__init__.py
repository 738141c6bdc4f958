"""Policies of scaling side by side, ours and those of other systems, on simulated streams.

Every policy decides by the same evaluations of the same stream (`dagster_sparkscale/backtest`),
with its default and with the best settings that one search for all has found on half of the loads
(`python -m benchmarks.policies.search`, kept in `tuned.json`). Late is the percent of the time
whose records were done later than three batch intervals after they came; cost is executor-hours /
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
KNOB = (10.0, 20.0, 40.0, 100.0, 200.0, 400.0)
"""Prices of lateness that are drawn."""


def measure() -> list[Figure]:
    from benchmarks.policies import playing, plot, results, search
    from benchmarks.policies.contestants import CAPACITY, CONTESTANTS
    from benchmarks.policies.front import points
    from benchmarks.policies.loads import cases

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
    at_price = {
        (price, case.name): playing.entry(CAPACITY, {"price_of_lateness": price}, case.name)
        for price in KNOB
        for case in reported
    }
    rows = playing.rows(sorted({*entries.values(), *at_price.values()}, key=str), hours)
    played = [
        results.Result(label, case, rows[entries[label, case.name]])
        for label in settings
        for case in found
    ]
    knob = {
        price: points([(case, rows[at_price[price, case.name]]) for case in reported])
        for price in KNOB
    }
    plot.draw(played, knob)
    RESULTS.write_text(results.as_csv(played))
    for half in results.HALVES:
        print(results.table(played, half), end="\n\n")
    print(results.moves(played), end="\n\n")
    return results.figures(played, settings, knob)
