"""Figures of what came of all contestants on all loads. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.figures import Figure
from benchmarks.policies.contestants import CAPACITY, CONTESTANTS
from benchmarks.policies.front import COST, LATE, Point, better, point
from benchmarks.policies.loads import GROUPS, Case, Group, Half
from benchmarks.policies.running import Row

GOALS: dict[Group, tuple[float, float]] = {
    "smooth": (1.0, 1.15),
    "bursty": (1.0, 1.35),
    "onoff": (1.0, 2.5),
}
"""Percent late, and times the oracle's executor-hours, at most."""
HALVES: tuple[Half, ...] = ("tune", "report")
TUNED, DEFAULT = "tuned", "default"
OURS = f"{CAPACITY}, {TUNED}"
"""What the figures are of: the one setting, for all loads, that was found on the loads for
tuning."""


class Result(NamedTuple):
    """What came of a contestant on a load."""

    label: str
    """Its name, and which of its settings."""
    case: Case
    row: Row


def label(contestant: str, setting: str) -> str:
    """How a contestant with its default or its tuned setting is called."""
    return f"{contestant}, {setting}"


def labels() -> list[str]:
    """All that are compared, in order."""
    return [label(each.name, setting) for each in CONTESTANTS for setting in (DEFAULT, TUNED)]


def mean(results: Sequence[Result], label: str, group: Group, half: Half) -> Point:
    """The means of one of them on the loads of one group and half."""
    return point(
        each.row
        for each in results
        if each.label == label and (each.case.group, each.case.half) == (group, half)
    )


Knob = Mapping[float, Mapping[Group, Point]]
"""Where CapacityPolicy is on the loads that were not tuned on, by its price of lateness, the lowest
first."""


def figures(results: Sequence[Result], settings: Mapping[str, Any], knob: Knob) -> list[Figure]:
    """All figures.

    Args:
        settings: by the label, for the detail.
    """
    found = [figure for group in GOALS for figure in _of_group(results, group, settings, knob)]
    return [*found, *_of_step(results, settings), _dominated(results)]


def _of_group(
    results: Sequence[Result], group: Group, settings: Mapping[str, Any], knob: Knob
) -> list[Figure]:
    late_goal, cost_goal = GOALS[group]
    late, cost = mean(results, OURS, group, "report")
    detail: dict[str, Any] = {
        "setting": settings[OURS],
        "of": "the mean of the loads that were not tuned on; one setting for all groups",
        "by other prices of lateness": {f"{p:g}": _short(of[group]) for p, of in knob.items()},
        **{
            half: {of: _short(mean(results, of, group, half)) for of in labels()} for half in HALVES
        },
    }
    loads = {
        each.case.name: {"half": each.case.half, **each.row.json()}
        for each in results
        if each.label == OURS and each.case.group == group
    }
    return [
        Figure(
            *(f"policy_{group}_late", round(late, 3), "%", late_goal, "lower"),
            detail | {"loads": loads},
        ),
        Figure(
            *(f"policy_{group}_cost", round(cost, 3), "ratio", cost_goal, "lower"),
            {"setting": settings[OURS], "see": f"policy_{group}_late"},
        ),
    ]


def _short(of: Point) -> dict[str, float]:
    return {"late": round(of.late, 2), "cost": round(of.cost, 3)}


def _of_step(results: Sequence[Result], settings: Mapping[str, Any]) -> list[Figure]:
    steps = [each for each in results if each.case.step_at is not None]
    by = {
        of: {each.case.name: each.row.json() for each in steps if each.label == of}
        for of in labels()
    }
    ours = [each.row for each in steps if each.label == OURS]
    ups = statistics.fmean(row.scale_ups or 0.0 for row in ours)
    minutes = statistics.fmean(row.late_minutes or 0.0 for row in ours)
    return [
        Figure(
            *("policy_step_scale_ups", round(ups, 2), "changes", 2.0, "lower"),
            {
                "setting": settings[OURS],
                "of": "a step from 2 to 16 executors' worth, the 15 minutes after it; the mean of "
                "DStreams and Structured Streaming with 3 seeds each",
                "policies": by,
            },
        ),
        Figure(
            *("policy_step_minutes", round(minutes, 2), "minutes", 4.0, "lower"),
            {
                "setting": settings[OURS],
                "of": "from the step until the last late batch that it led to was done: until two "
                "minutes without any; last_late_minutes has the last one of 15 minutes",
                "see": "policy_step_scale_ups",
            },
        ),
    ]


def _dominated(results: Sequence[Result]) -> Figure:
    peers = [each for each in CONTESTANTS if each.peer]
    of = {label(each.name, setting) for each in peers for setting in (DEFAULT, TUNED)}
    knowing = {each.name for each in peers if each.knows_the_load}
    ours = {each.case.name: each.row for each in results if each.label == OURS}
    half = {each.case.name: each.case.half for each in results}
    by_load: dict[str, dict[str, str]] = {}
    not_knowing = set()
    for name, case, row in results:
        if name in of and better(row, ours[case.name]):
            shown = f"late {row.late:.2f} %, cost {row.cost:.2f}"
            by_load.setdefault(case.name, {})[name] = shown
            if name.rpartition(", ")[0] not in knowing:
                not_knowing.add(case.name)
    return Figure(
        *("policy_dominated", float(len(by_load)), "loads", 0.0, "lower"),
        {
            "rule": f"a peer, default or tuned, is late by more than {LATE} points less, and costs "
            f"more than {COST:.0%} less",
            "of": f"{len(ours)} loads, both halves",
            "by those that did not know the load": len(not_knowing),
            "of the half that is reported": sum(half[name] == "report" for name in by_load),
            "loads": {
                name: {
                    "half": half[name],
                    CAPACITY: f"late {ours[name].late:.2f} %, cost {ours[name].cost:.2f}",
                    **better_ones,
                }
                for name, better_ones in by_load.items()
            },
        },
    )


def table(results: Sequence[Result], half: Half) -> str:
    """Percent late and times the oracle, by the policy and the group, for the terminal."""
    lines = [f"{half:32}" + "".join(f"{group:>20}" for group in GROUPS)]
    for each in labels():
        cells = [mean(results, each, group, half) for group in GROUPS]
        shown = "".join(f"{late:>12.2f} %{cost:>6.2f}" for late, cost in cells)
        lines.append(f"{each:32}{shown}")
    return "\n".join(lines)


def moves(results: Sequence[Result]) -> str:
    """How they move after the step from 2 to 16, and in an hour of all loads, for the terminal."""
    head = ("ups", "changes", "settled", "late for", "overshoot", "rescales/h", "reversals/h")
    lines = [f"{'a step from 2 to 16':32}" + "".join(f"{each:>12}" for each in head)]
    for of in labels():
        rows = [each.row for each in results if each.label == of]
        steps = [row for row in rows if row.scale_ups is not None]
        names = ("scale_ups", "changes", "settled_minutes", "late_minutes", "overshoot")
        cells = [statistics.fmean(getattr(row, name) for row in steps) for name in names]
        cells += [
            statistics.fmean(getattr(row, n) for row in rows) for n in ("rescales", "reversals")
        ]
        lines.append(f"{of:32}" + "".join(f"{cell:>12.1f}" for cell in cells))
    return "\n".join(lines)


def as_csv(results: Sequence[Result]) -> str:
    """Every number of every run, a line a contestant and load."""
    names = list(Row.__dataclass_fields__)
    lines = [",".join(["policy", "group", "half", "load", *names])]
    for each in results:
        values = each.row.json()
        cells = [each.label, each.case.group, each.case.half, each.case.name]
        cells += [str(values.get(name, "")) for name in names]
        lines.append(",".join(f'"{cell}"' if "," in cell else cell for cell in cells))
    return "\n".join(lines) + "\n"
