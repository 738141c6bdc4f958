"""What a play of the ten streams has measured, as a picture.

python -m tests.e2e.ten.picture REPORT PICTURE
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_CURVES = {
    "driver's JVM": "drivers' JVMs",
    "driver": "drivers' Python",
    "supervisor": "supervisors",
    "code server": "code server",
    "daemon": "daemon",
    "web server": "web server",
}
_DOTS = (("kill", "x", "tab:red"), ("stop", "s", "tab:orange"), ("damage", "^", "tab:purple"))
_IN_WORDS = {
    "kill": "killed",
    "stop": "stood still",
    "damage": "a connection was damaged",
}


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Draw the load with the executors, the memory, and what was done, and write them to a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 10), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    load, held, all_held, done = axes = figure.subplots(
        4, 1, sharex=True, height_ratios=(2, 4, 2, 3)
    )
    _draw_load(report, load)
    _draw_memory(report, held)
    _draw_sums(report, all_held)
    _draw_faults(report, done)
    minutes = report["seconds"] / 60
    for each in axes:
        for quarter in (1, 2, 3):
            each.axvline(minutes * quarter / 4, color="grey", linewidth=0.6, linestyle=":")
        each.set_xlim(0, minutes)
        each.grid(alpha=0.2)
    done.set_xlabel("minutes; dotted: the quarters, of which the second and the last are compared")
    figure.savefig(path)


def _draw_load(report: Mapping[str, Any], axis: Any) -> None:
    at = [row[0] / 60 for row in report["loads"]]
    axis.plot(at, [sum(row[1:]) for row in report["loads"]], color="black", linewidth=0.9)
    axis.set_ylabel("load\n(sum of the shares)")
    axis.set_ylim(bottom=0)
    executors = axis.twinx()
    counts = _by_moment(report, "executor", len)
    colour = "tab:blue"
    executors.plot(*counts, drawstyle="steps-post", color=colour, linewidth=0.9)
    executors.set_ylabel("executors", color=colour)
    executors.set_ylim(bottom=0)


def _draw_memory(report: Mapping[str, Any], axis: Any) -> None:
    """Each process a line, from its start to its end."""
    for number, (kind, words) in enumerate(_CURVES.items()):
        lines: dict[tuple[int, float], list[tuple[float, float]]] = defaultdict(list)
        for at, of, _, pid, born, megabytes, *_ in report["samples"]:
            if of == kind:
                lines[pid, born].append((at / 60, megabytes))
        of_kind = report["kinds"].get(kind)
        label = f"{words}: {of_kind['growth']:.3f}" if of_kind else words
        for line in lines.values():
            axis.plot(*zip(*line, strict=True), color=f"C{number}", linewidth=0.7, label=label)
            label = "_"
    axis.set_yscale("log")
    axis.set_ylabel("MB of each process")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.legend(
        fontsize=8,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=6,
        title="last quarter / second, of the processes that were there in both",
        title_fontsize=8,
    )


def _draw_sums(report: Mapping[str, Any], axis: Any) -> None:
    for number, (kind, words) in enumerate(
        (("driver's JVM", "drivers' JVMs"), ("driver", "drivers' Python"))
    ):
        at, sums = _by_moment(report, kind, lambda of: sum(each[5] for each in of) / 1000)
        axis.plot(at, sums, color=f"C{number}", linewidth=0.9, label=words)
    at, sums = _by_moment(report, None, lambda of: sum(each[5] for each in of) / 1000)
    axis.plot(at, sums, color="black", linewidth=0.9, label="all processes")
    axis.set_ylabel("GB together")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8, loc="center right", ncols=3)


def _draw_faults(report: Mapping[str, Any], axis: Any) -> None:
    rows = [*report["streams"], "web server", "code server", "daemon"]
    for begin, _, marker, colour in (
        (b, w, m, c) for b, (w, m, c) in zip("ksd", _DOTS, strict=True)
    ):
        of = [each for each in report["faults"] if each[2].startswith(begin)]
        of = [each for each in of if each[3] in rows]
        word = next(words for what, words in _IN_WORDS.items() if what.startswith(begin))
        places = [rows.index(each[3]) for each in of]
        axis.plot([f[0] / 60 for f in of], places, marker, color=colour, markersize=4, label=word)
        for (start, end, *_), place in zip(of, places, strict=True):
            axis.plot([start / 60, end / 60], [place, place], color=colour, linewidth=3, alpha=0.5)
    by_hand = [each for each in report["deeds"] if each[2] in rows]
    axis.plot(
        [each[0] / 60 for each in by_hand],
        [rows.index(each[2]) for each in by_hand],
        ".",
        color="tab:green",
        label="changed by hand",
    )
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    axis.invert_yaxis()
    axis.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)


def _by_moment(
    report: Mapping[str, Any], kind: str | None, what: Callable[[Sequence[Any]], float]
) -> tuple[list[float], list[float]]:
    moments: dict[float, list[Any]] = defaultdict(list)
    for row in report["samples"]:
        if kind in (None, row[1]):
            moments[row[0]].append(row)
        else:
            moments[row[0]] += []
    at = sorted(moments)
    return [each / 60 for each in at], [what(moments[each]) for each in at]


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
