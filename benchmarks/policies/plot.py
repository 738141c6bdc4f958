"""The front as a picture: what is late against what it costs, by the group of loads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.policies.contestants import CAPACITY, CONTESTANTS
from benchmarks.policies.front import Point
from benchmarks.policies.loads import GROUPS, Group
from benchmarks.policies.results import DEFAULT, GOALS, TUNED, Knob, Result, label, mean

PICTURE = Path(__file__).parents[2] / "docs" / "policies.png"
_TITLES: dict[Group, str] = {
    "smooth": "smooth",
    "bursty": "bursty, noisy, spikes",
    "onoff": "on and off within the minute",
    "step": "steps, and jumps of what a record costs",
}
_MOST_COST = 4.5


def draw(
    results: Sequence[Result],
    knob: Knob,
    path: Path = PICTURE,
) -> None:
    """Draw the loads that were not tuned on."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2).flat
    handles: dict[str, Any] = {}
    for group, axis in zip(GROUPS, axes, strict=True):
        for number, contestant in enumerate(each for each in CONTESTANTS if each.name != CAPACITY):
            colour = f"C{number % 10}" if contestant.peer else "black"
            points = [
                mean(results, label(contestant.name, setting), group, "report")
                for setting in (DEFAULT, TUNED)
            ]
            marker = "ovs^D"[number // 3]
            axis.plot(*_drawn(points), color=colour, linewidth=0.6, alpha=0.5)
            axis.plot(*_drawn(points[:1]), marker, color=colour, fillstyle="none")
            (handles[contestant.name],) = axis.plot(*_drawn(points[1:]), marker, color=colour)
        (handles[f"{CAPACITY}, by its price"],) = axis.plot(
            *_drawn([of[group] for of in knob.values()]), "k.-", linewidth=1.5
        )
        ours = mean(results, label(CAPACITY, TUNED), group, "report")
        (handles[CAPACITY],) = axis.plot(*_drawn([ours]), "k*", markersize=14)
        if group in GOALS:
            late, cost = GOALS[group]
            axis.plot([0, cost, cost], [late, late, 0], ":", color="grey")
        axis.set(
            title=_TITLES[group],
            xlabel="executor-hours / those of the oracle",
            ylabel="late, % of the time",
            xlim=(0.5, _MOST_COST + 0.1),
            ylim=(-0.02, 110),
        )
        axis.set_yscale("symlog", linthresh=1.0)
        axis.set_yticks([0, 0.5, 1, 2, 5, 10, 20, 50, 100])
        axis.set_yticklabels(["0", "0.5", "1", "2", "5", "10", "20", "50", "100"])
        axis.grid(alpha=0.2)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=5,
        title="hollow: default; filled: tuned on other loads; dotted: the goal; at the right edge: "
        f"{_MOST_COST:g} or more",
    )
    figure.savefig(path)


def _drawn(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [min(each.cost, _MOST_COST) for each in points], [each.late for each in points]
