"""How policies are compared: loads, the search, what is late after a step, and who is better."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks.policies import results
from benchmarks.policies.contestants import CAPACITY, CONTESTANTS, named
from benchmarks.policies.front import Point, better, points, score
from benchmarks.policies.loads import DSTREAMS, GROUPS, ONE, TRACES, Case, cases, on_off, step
from benchmarks.policies.running import Row, late_for, row
from benchmarks.policies.search import BUDGET, TUNED, candidates, tuned
from dagster_sparkscale.backtest.machine import Done

LOAD = step("a load", (2, 0.5), (4, 0.5))
SMOOTH, BURSTY = (Case(group, "tune", replace(LOAD, name=group)) for group in ("smooth", "bursty"))


def came(late, cost, **fields):
    return Row(late, cost, 0.0, 0.0, 0.0, **fields)


def test_every_group_has_loads_to_tune_on_and_others_to_report():
    found = cases()
    assert len({case.name for case in found}) == len(found)
    assert {(case.group, case.half) for case in found} == {
        (group, half) for group in GROUPS for half in results.HALVES
    }


def test_every_load_can_be_kept_up_with():
    for case in cases():
        # A cut-off at 28 executors' worth, and one that costs more.
        dearest = max((cost for _, cost in case.application.costs), default=1.0)
        assert case.load.peak * dearest <= 28 * ONE + 1e-6
        assert case.load.mean < case.application.capacity(40, dearest)


def test_every_trace_has_its_source():
    text = (TRACES / "ATTRIBUTION.md").read_text()
    names = [path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz")]
    assert names and all(f"`{name}`" in text for name in names)


def test_a_load_is_on_and_off_between_quiet_hours():
    load = on_off("a load", (12, 20), (1, 40), (3, 6, 1.0), 2.5)
    assert load.rate(3600 + 5) == 12 * ONE
    assert load.rate(3600 + 25) == 1 * ONE
    assert 3 * ONE < load.rate(1800) < 6 * ONE + 1e-9


def test_what_costs_least_with_a_percent_late_scores_best():
    assert score([(SMOOTH, came(1.0, 1.5))]) == 1.5
    assert score([(SMOOTH, came(3.0, 1.5))]) == 2.5
    # Of the means of groups, whatever loads they have.
    assert score([(SMOOTH, came(0, 1)), (SMOOTH, came(0, 2)), (BURSTY, came(0, 4.5))]) == 3.0
    # A load of a group may be later, where another one is less so.
    assert score([(SMOOTH, came(2, 1)), (SMOOTH, came(0, 1))]) == 1.0


def test_the_means_are_of_each_group():
    found = points([(SMOOTH, came(1, 2)), (SMOOTH, came(3, 4)), (BURSTY, came(5, 6))])
    assert found == {"smooth": Point(2, 3), "bursty": Point(5, 6)}


@pytest.mark.parametrize(
    ("late", "cost", "expected"),
    [(0.3, 1.9, True), (0.4, 1.9, False), (0.3, 1.98, False), (0.6, 1.0, False), (0.0, 2.1, False)],
)
def test_who_is_better_on_both_axes_is_so_by_more_than_chance(late, cost, expected):
    assert better(came(late, cost), came(0.5, 2.0)) is expected


def test_all_are_searched_with_the_same_budget():
    for contestant in CONTESTANTS:
        found = candidates(contestant)
        assert found[0] == contestant.default
        assert len(found) == min(BUDGET, len(contestant.grid())) + 1
        assert len({json.dumps(each, sort_keys=True) for each in found}) == len(found)
        for settings in found:
            assert contestant.make(SMOOTH, **settings) is not None


def test_the_settings_that_are_kept_are_those_of_the_search():
    kept = tuned()
    assert list(kept) == [each.name for each in CONTESTANTS], f"make {TUNED} anew"
    for contestant in CONTESTANTS:
        assert kept[contestant.name] in candidates(contestant), f"search {contestant.name} anew"


def test_a_policy_by_its_module_may_be_run():
    contestant = named("dagster_sparkscale.autoscale.ratio:RatioPolicy")
    found = row(SMOOTH, 1.0, lambda: contestant.make(SMOOTH, scale_up_ratio=0.8))
    assert found.cost > 2
    with pytest.raises(ValueError, match="policy = 'Mine': must be module:Class, or one of static"):
        named("Mine")


def done(began, delay):
    return Done(began, 1, 10.0, 5.0, delay, 4)


def test_what_is_late_after_a_step_ends_with_two_minutes_without():
    batches = [done(90, 40), done(130, 40), done(200, 35), done(210, 12), done(400, 40)]
    run = SimpleNamespace(application=DSTREAMS, batches=batches)
    assert late_for(run, 100.0) == 105.0
    assert late_for(run, 300.0) == 105.0
    assert late_for(run, 210.0) == 0.0


def played(late, cost):
    """Of a load of each group, where all but ours come to the same."""
    found = []
    for label in results.labels():
        for group in GROUPS:
            for half in results.HALVES:
                after = {"scale_ups": 2.0, "late_minutes": 3.0} if group == "step" else {}
                at = 1800.0 if group == "step" else None
                case = Case(group, half, replace(LOAD, name=f"{group} {half}"), step_at=at)
                mine = came(late, cost, **after) if label == results.OURS else came(1, 2, **after)
                found.append(results.Result(label, case, mine))
    return found


def test_figures_are_of_ours_and_say_where_peers_are_better():
    settings = {label: {"a": 1} for label in results.labels()}
    knob = {40.0: {group: Point(0.25, 1.25) for group in GROUPS}}
    of = {each.name: each for each in results.figures(played(0.5, 1.1), settings, knob)}
    assert {name: each.value for name, each in of.items()} == {
        **{f"policy_{group}_late": 0.5 for group in results.GOALS},
        **{f"policy_{group}_cost": 1.1 for group in results.GOALS},
        "policy_step_scale_ups": 2.0,
        "policy_step_minutes": 3.0,
        "policy_dominated": 0.0,
    }
    assert of["policy_onoff_cost"].goal == 2.5
    assert of["policy_smooth_late"].detail["report"]["DS2, default"] == {"late": 1.0, "cost": 2.0}
    other = of["policy_smooth_late"].detail["by other prices of lateness"]
    assert other == {"40": {"late": 0.25, "cost": 1.25}}
    worse = results.figures(played(1.5, 2.2), settings, knob)[-1]
    assert (worse.value, worse.detail["of the half that is reported"]) == (8.0, 4)
    assert "static mean, default" in worse.detail["loads"]["step tune"]
    assert worse.detail["by those that did not know the load"] == 8
    for none in (CAPACITY, "clairvoyant"):
        assert f"{none}, default" not in worse.detail["loads"]["step tune"]
