"""What policies would have made of a stream's history."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale import (
    AutoscalePolicy,
    Bounds,
    DeclarationError,
    Evaluation,
    Hold,
    RatioPolicy,
    ScaleTo,
)
from dagster_sparkscale.advice import text
from dagster_sparkscale.advice.backtest import NoAdvice, run_backtest
from dagster_sparkscale.advice.picture import draw
from dagster_sparkscale.advice.specs import with_policy
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.study import Study
from dagster_sparkscale.declare.learner import Learner, Workload
from tests.advice.recorded import BEGAN, STREAM, recorded, waves


class Fixed(AutoscalePolicy):
    """So many executors, whatever comes."""

    size: int

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        target = bounds.aim(self.size)
        return Hold("") if evaluation.requested == target else ScaleTo(target, "")


class Failing(AutoscalePolicy):
    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        raise KeyError("no such model")


FIXED = (Fixed(size=12), Fixed(size=3), Failing())


@pytest.fixture(scope="module")
def study() -> Study:
    return run_backtest(recorded(), STREAM, FIXED, most_late=5.0)


class TestStudy:
    def test_what_ran_is_replayed_and_believed(self, study: Study) -> None:
        assert study.refused is None
        assert abs(study.replay.fixed.executors) < 0.02
        assert (
            study.replay is not None
            and study.replay.policy is not None
            and abs(study.replay.policy.executors) < 0.15
        )
        hours = sum(each.registered or 0 for each in recorded()[1:]) / 60
        assert study.replay.executor_hours == pytest.approx(hours, rel=0.03)

    def test_a_large_fixed_size_is_never_late_and_costs_its_hours(self, study: Study) -> None:
        large = study.outcomes[1]
        assert large.whole is not None and large.held_out is not None
        assert large.rejected is None
        assert large.whole.late < 0.5
        assert large.whole.executor_hours == pytest.approx(12 * study.seconds / 3600, rel=0.02)
        assert large.held_out.executor_hours < 0.4 * large.whole.executor_hours

    def test_a_small_one_is_rejected_by_the_limit_that_it_broke(self, study: Study) -> None:
        small = study.outcomes[2]
        assert small.whole is not None and small.whole.late > 20
        assert small.rejected is not None and small.rejected.endswith("% late, and 5 % may be")

    def test_one_that_fails_is_rejected_and_hides_no_other(self, study: Study) -> None:
        failing = study.outcomes[3]
        assert failing.rejected == "it could not decide: KeyError: 'no such model'"

    def test_nobody_in_time_is_cheaper_than_who_knew_the_load(self, study: Study) -> None:
        assert study.oracle_hours is not None
        for each in study.outcomes:
            if each.whole is not None and each.whole.late < 0.5:
                assert study.oracle_hours <= 1.02 * each.whole.executor_hours

    def test_the_same_history_gives_the_same_advice(self, study: Study) -> None:
        again = run_backtest(recorded(), STREAM, FIXED, most_late=5.0)
        assert text.as_dict("clicks", again) == text.as_dict("clicks", study)

    def test_minutes_that_are_missing_are_no_minutes_without_load(self) -> None:
        whole = run_backtest(recorded(), STREAM)
        gap = [each for each in recorded() if not 120 <= (each.at - BEGAN) / 60 < 240]
        without = run_backtest(gap, STREAM)
        assert len(without.parts) == 2
        assert without.seconds == pytest.approx(whole.seconds - 7200, abs=200)

    def test_a_load_of_another_day_is_tried_on_the_same_application(self) -> None:
        flat = Load("flat", 60.0, (2500.0,) * 240)
        found = run_backtest(recorded(), STREAM, load=flat)
        assert found.declared is not None and found.declared.whole is not None
        assert found.declared.held_out is None
        assert found.seconds == flat.seconds
        assert found.declared.whole.executor_hours < 4 * 6
        assert "recorded" not in [row[0] for row in text.rows(found)]

    def test_a_larger_load_takes_more(self) -> None:
        found, twice = run_backtest(recorded(), STREAM), run_backtest(recorded(), STREAM, scale=2.0)
        one, two = found.declared, twice.declared
        assert one and two and one.whole and two.whole
        assert 1.5 < two.whole.executor_hours / one.whole.executor_hours < 2.5


class TestRefused:
    def test_where_the_simulation_is_not_what_was_recorded(self) -> None:
        """Something that no minute tells of makes batches three times as long every other hour."""
        odd = [
            replace(each, ratio=3 * each.ratio, processing_ms=3 * each.processing_ms)
            if (each.at - BEGAN) // 3600 % 2 and each.ratio and each.processing_ms
            else each
            for each in recorded()
        ]
        found = run_backtest(odd, STREAM, FIXED)
        assert found.refused is not None
        assert found.outcomes == ()
        assert text.conclusion("clicks", found).startswith("clicks: no advice, as the simulation")
        assert text.as_dict("clicks", found)["policies"] == []

    def test_too_few_minutes_say_nothing(self) -> None:
        with pytest.raises(NoAdvice, match="clicks: "):
            run_backtest(recorded()[:5], STREAM)

    def test_a_policy_that_the_stream_cannot_have(self) -> None:
        with pytest.raises(DeclarationError, match="max_executors"):
            run_backtest(recorded(), STREAM, ["ratio:max_executors=0"])


class TestWords:
    def test_the_declared_policy_is_in_time_and_none_is_cheaper(self, study: Study) -> None:
        assert text.conclusion("clicks", study).startswith(
            "clicks: the declared policy is in time ("
        )
        assert not text.is_late(study)

    def test_another_is_cheaper(self) -> None:
        wasting = with_policy(STREAM, RatioPolicy(max_executors=20, min_executors=10))
        found = run_backtest(recorded(), wasting, [STREAM.autoscale], most_late=5.0)  # type: ignore[list-item]
        if found.refused is None:
            said = text.conclusion("clicks", found)
            assert said.startswith("clicks: declare RatioPolicy(max_executors=20) (")
            assert "less than as declared (" in said

    def test_all_are_too_late(self) -> None:
        found = run_backtest(recorded(), STREAM, [Fixed(size=2)], most_late=0.0, scale=4.0)
        assert text.conclusion("clicks", found).startswith(
            "clicks: all policies are too late for 0 %"
        )
        assert text.is_late(found)

    def test_the_table_has_a_row_for_each(self, study: Study) -> None:
        rows = text.rows(study)
        assert [row[0] for row in rows] == [
            "recorded",
            "declared",
            "Fixed(size=12)",
            "Fixed(size=3)",
            "Failing()",
            "oracle",
        ]
        assert {len(row) for row in rows} == {len(text.COLUMNS)}
        assert "could not decide" in rows[4][-1]

    def test_json_has_no_number_of_what_is_not_known(self, study: Study) -> None:
        found = json.loads(json.dumps(text.as_dict("clicks", study), allow_nan=False))
        assert found["policies"][3]["late_percent"] is None
        assert found["recommended"] == "declared"

    def test_markdown_keeps_its_columns_whatever_a_policy_says(self, study: Study) -> None:
        odd = replace(study.outcomes[3], rejected="a | b")
        found = replace(study, outcomes=(*study.outcomes[:3], odd))
        lines = [line for line in text.markdown("clicks", found).splitlines() if line[:1] == "|"]
        assert {line.replace("\\|", "").count("|") for line in lines} == {len(text.COLUMNS) + 1}


def pixels(path: Path) -> Any:
    from matplotlib.image import imread

    return imread(path)


def test_it_is_drawn(study: Study, tmp_path: Path) -> None:
    draw("clicks", study, tmp_path / "one.png")
    picture = pixels(tmp_path / "one.png")
    assert picture.shape[0] > 500 and picture.std() > 0.05
    draw("clicks", replace(study, outcomes=study.outcomes[:1]), tmp_path / "other.png")
    other = pixels(tmp_path / "other.png")
    assert picture.shape != other.shape or (picture != other).any()


def test_a_load_that_nobody_recorded_is_drawn_too(tmp_path: Path) -> None:
    draw("clicks", run_backtest(recorded(), STREAM, load=waves(1)), tmp_path / "one.png")
    assert pixels(tmp_path / "one.png").std() > 0.05


class Unmade(Failing):
    def learner(self, workload: Workload, /) -> Learner | None:
        raise SystemExit("no license")


@pytest.mark.parametrize(("policy", "fault"), [(Failing(), "KeyError"), (Unmade(), "no license")])
def test_where_the_policy_that_ran_fails_no_advice_is_given(
    policy: AutoscalePolicy, fault: str
) -> None:
    with pytest.raises(NoAdvice, match=f"the policy that ran could not decide: .*{fault}"):
        run_backtest(recorded(), with_policy(STREAM, policy))


def test_a_load_in_milliseconds_is_refused() -> None:
    week = Load("week", 60_000.0, (1000.0,) * 7 * 1440)
    with pytest.raises(ValueError, match=r"load 'week' of .* is its time in seconds"):
        run_backtest([], STREAM, load=week)
