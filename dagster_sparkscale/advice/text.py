"""A backtest in words, as a table and as JSON: the conclusion first, then how far to believe it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from dagster_sparkscale.backtest.replay import Errors, Replay
from dagster_sparkscale.backtest.study import Study, Tried
from dagster_sparkscale.durations import span

COLUMNS = ("POLICY", "LATE", "LAST PART", "LONGEST", "EXECUTOR-HOURS", "RESCALES", "REJECTED")
MOST_CURVES = 4
"""Policies that are drawn: more can't be told apart."""
_UNSEEN = 1.0
"""Percent of the time from which on it is said that there never were so many executors."""
_SAVES = 0.05
"""Share of the executor-hours that another policy has to save to be worth a change."""


def conclusion(stream: str, study: Study) -> str:
    """What follows, in a sentence."""
    if study.refused is not None:
        return f"{stream}: no advice, as the simulation is not what was recorded: {study.refused}"
    declared, best = study.declared, study.best
    assert declared is not None
    if best is None:
        if len(study.outcomes) == 1:
            return f"{stream}: the declared policy is too late: {declared.rejected}"
        least = min(
            (each for each in study.outcomes if each.whole), key=_lateness, default=declared
        )
        return (
            f"{stream}: all policies are too late for {study.most_late:g} %; the least late is "
            f"{least.name} ({_is(least)})"
        )
    assert best.whole is not None
    if best is declared:
        beside = ", and no other is in time and cheaper" if len(study.outcomes) > 1 else ""
        return f"{stream}: the declared policy is in time ({_is(declared)}){beside}"
    if declared.rejected is not None:
        return f"{stream}: declare {best.name} ({_is(best)}): as declared it is {_is(declared)}"
    assert declared.whole is not None
    saved = 1 - best.whole.executor_hours / declared.whole.executor_hours
    if saved < _SAVES:
        return (
            f"{stream}: the declared policy is in time ({_is(declared)}), and others cost as much"
        )
    return (
        f"{stream}: declare {best.name} ({_is(best)}): {saved:.0%} less than as declared "
        f"({_is(declared)})"
    )


def _lateness(outcome: Tried) -> float:
    assert outcome.whole is not None
    return max(outcome.whole.late, 0.0 if outcome.held_out is None else outcome.held_out.late)


def _is(outcome: Tried) -> str:
    found = outcome.whole
    if found is None:
        return str(outcome.rejected)
    return f"{found.late:.2g} % late at {found.executor_hours:.1f} executor-hours"


def drawn(study: Study) -> list[Tried]:
    """The policies that a picture shows: what was declared, and the cheapest of the others that are
    in time."""
    able = [each for each in study.outcomes if each.whole is not None]
    others = sorted(able[1:], key=lambda each: (each.rejected is not None, _hours(each)))
    return [*able[:1], *others[: MOST_CURVES - 1]]


def _hours(outcome: Tried) -> float:
    assert outcome.whole is not None
    return outcome.whole.executor_hours


def believed(study: Study) -> Iterator[str]:
    """How far the simulation is what was recorded, a line each."""
    replay = study.replay
    if replay is None:
        return
    known = replay.calibration
    yield (
        f"calibrated by {known.minutes} minutes; policies are tried on {span(study.seconds)}; "
        f"processing times are off by {known.error:.0%}"
    )
    yield f"replayed on the executors that were there: {_off(replay.fixed)}"
    yield f"the same in the last part, calibrated without it: {_off(replay.held_out)}"
    if replay.policy is not None:
        yield f"the declared policy, simulated, against what ran: {_off(replay.policy)}"
    if study.ran is not None and study.ran.doubtful:
        yield (
            f"{study.ran.doubtful} of {study.ran.minutes} minutes say little, and are marked: a "
            "limit kept records back, or there were no more executors to be had"
        )
    yield from (f"assumed: {each}" for each in known.assumed)


def _off(errors: Errors) -> str:
    simulated = errors.recorded_late + errors.late
    late = f"{errors.recorded_late:.1f} % of minutes late, {simulated:.1f} % simulated"
    return f"executor-hours {errors.executors:+.0%}, R off by {errors.ratio:.0%}, {late}"


def rows(study: Study) -> list[tuple[str, ...]]:
    """The table below `COLUMNS`: what ran, the declared policy, the others, and the oracle."""
    found: list[tuple[str, ...]] = []
    if (ran := study.ran) is not None:
        longest = "" if ran.longest_delay is None else f"{ran.longest_delay:.0f} s"
        hours = f"{ran.executor_hours:.1f}"
        late = f"{ran.late:.2f} % of min"
        found.append(("recorded", late, "", longest, hours, str(ran.rescales), ""))
    found += [_row(each, study) for each in (*study.outcomes[:1], *_ranked(study.outcomes[1:]))]
    if study.oracle_hours is not None:
        found.append(("oracle", "0.00 %", "", "", f"{study.oracle_hours:.1f}", "", ""))
    return found


def _ranked(outcomes: Sequence[Tried]) -> list[Tried]:
    """Outcomes that are in time, the cheapest first; then the late ones; then those without one."""
    return sorted(
        outcomes,
        key=lambda each: (
            *(each.whole is None, each.rejected is not None),
            0.0 if each.whole is None else each.whole.executor_hours,
        ),
    )


def notes(study: Study) -> Iterator[str]:
    """What is to be known beside the table of what is declared and what is best, a line each."""
    told = [study.declared] if study.best is study.declared else [study.declared, study.best]
    for each in told:
        if each is not None and each.unseen is not None and each.unseen >= _UNSEEN:
            yield (
                f"{each.name}: {each.unseen:.0f} % of the time on more executors, or fewer, than "
                "the history has: trust it less"
            )
    if study.oracle_hours is None and study.outcomes:
        yield (
            "what the oracle would have needed is not known: a limit keeps records back"
            if study.application.max_records is not None
            else "what the oracle would have needed is not known: there is no maximum"
        )


def _row(outcome: Tried, study: Study) -> tuple[str, ...]:
    whole, last, declared = outcome.whole, outcome.held_out, study.declared
    if whole is None:
        return (outcome.name, "", "", "", "", "", outcome.rejected or "")
    hours = f"{whole.executor_hours:.1f}"
    if outcome is not declared and declared is not None and declared.whole is not None:
        hours += f" ({whole.executor_hours / declared.whole.executor_hours - 1:+.0%})"
    if study.oracle_hours:
        hours += f", {whole.executor_hours / study.oracle_hours:.2f} x"
    return (
        *(outcome.name, f"{whole.late:.2f} %", "" if last is None else f"{last.late:.2f} %"),
        *(f"{whole.longest_delay:.0f} s", hours, str(whole.rescales), outcome.rejected or ""),
    )


def as_dict(stream: str, study: Study) -> dict[str, Any]:
    """All of it for JSON; what is not known is null."""
    return {
        "stream": stream,
        "conclusion": conclusion(stream, study),
        "refused": study.refused,
        "most_late_percent": study.most_late,
        "seconds": round(study.seconds),
        "replay": None if study.replay is None else _replayed(study.replay),
        "recorded": None if study.ran is None else asdict(study.ran),
        "oracle_executor_hours": _short(study.oracle_hours),
        "policies": [_as_dict(each) for each in study.outcomes],
        "recommended": None if study.best is None else study.best.name,
    }


def _replayed(replay: Replay) -> dict[str, Any]:
    errors = {
        "executors": replay.fixed,
        "last_part": replay.held_out,
        "policy": replay.policy,
    }
    return {
        "minutes": replay.calibration.minutes,
        "executor_hours": _short(replay.executor_hours),
        "low_confidence_share": _short(replay.calibration.doubtful),
        "assumed": list(replay.calibration.assumed),
        "errors": {name: None if each is None else _error(each) for name, each in errors.items()},
    }


def _error(errors: Errors) -> dict[str, Any]:
    return {
        "executor_hours_share": _short(errors.executors),
        "ratio_share": _short(errors.ratio),
        "delay_seconds": _short(errors.delay),
        "lag_seconds": _short(errors.lag),
        "late_minutes_percent": _short(errors.recorded_late),
        "late_minutes_points": _short(errors.late),
    }


def _as_dict(outcome: Tried) -> dict[str, Any]:
    whole, last = outcome.whole, outcome.held_out
    return {
        "policy": outcome.name,
        "late_percent": None if whole is None else _short(whole.late),
        "late_percent_last_part": None if last is None else _short(last.late),
        "longest_delay_seconds": None if whole is None else _short(whole.longest_delay),
        "executor_hours": None if whole is None else _short(whole.executor_hours),
        "rescales": None if whole is None else whole.rescales,
        "most_executors": None if whole is None else whole.most,
        "unseen_percent": _short(outcome.unseen),
        "rejected": outcome.rejected,
    }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def markdown(stream: str, study: Study) -> str:
    """The conclusion, how far to believe it, and the table, for Dagster's pages."""
    lines = [conclusion(stream, study), "", *(f"- {line}" for line in believed(study)), ""]
    lines += ["| " + " | ".join(map(str.lower, COLUMNS)) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(_cell(each) for each in row) + " |" for row in rows(study)]
    lines += ["", *(f"- {line}" for line in notes(study))]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def is_late(study: Study) -> bool:
    """Whether the declared policy broke a limit."""
    return study.declared is not None and study.declared.rejected is not None
