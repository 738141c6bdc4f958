"""A backtest as one file: each curve is what was simulated, and a gap stays one."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.advice import text
from dagster_sparkscale.advice.backtest import run_backtest
from dagster_sparkscale.backtest.study import Study
from dagster_sparkscale.serve.page.backtest import RECORDED, _most, drawn, report
from dagster_sparkscale.serve.page.charts import Chart
from dagster_sparkscale.serve.page.files import static
from tests.advice.recorded import STREAM, recorded
from tests.advice.test_backtest import FIXED
from tests.serve.page.test_html import Found


@pytest.fixture(scope="module")
def study() -> Study:
    return run_backtest(recorded(), STREAM, FIXED, most_late=5.0)


def values(of: Chart, label: str) -> list[float]:
    found = next(each.values for each in of.series if each.label == label)
    return [value for value in found if value is not None]


def test_each_curve_is_what_was_simulated(study: Study) -> None:
    of = drawn(study)
    load, executors, delay = of.charts
    assert of.times == sorted(of.times)
    names = [each.name for each in text.drawn(study)]
    assert [each.label for each in executors.series] == [*names, RECORDED]
    for outcome in text.drawn(study):
        numbers = {number for run in outcome.runs for _, number in run.changes}
        assert set(values(executors, outcome.name)) <= numbers
        assert max(values(executors, outcome.name)) == max(numbers)
        longest = max(each.delay for run in outcome.runs for each in run.batches)
        assert max(values(delay, outcome.name)) == longest
    rates = [rate for part in study.parts for rate in part.load.rates]
    assert max(values(load, "input")) == max(rates)
    known = [m.registered for part in study.parts for m in part.minutes]
    assert max(values(executors, RECORDED)) == max(n for n in known if n is not None)


def test_between_parts_of_the_load_there_is_a_gap(study: Study) -> None:
    (part, *_) = study.parts
    later = replace(part, began_at=part.began_at + part.load.seconds + 7200)
    twice = replace(
        study,
        parts=(part, later),
        outcomes=tuple(
            replace(each, runs=(each.runs[0], each.runs[0])) if each.runs else each
            for each in study.outcomes
        ),
    )
    of = drawn(twice)
    for each in of.charts[:2]:
        gaps = [n for n, value in enumerate(each.series[0].values) if value is None]
        assert [of.times[n] for n in gaps] == [part.began_at + part.load.seconds]


@given(st.floats(0.5, 200), st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(1, 5))
def test_no_peak_of_the_load_is_lost(step: float, rates: list[float], minutes: int) -> None:
    found = _most(step, rates, 60 * minutes)
    assert max(found) == max(rates) and min(found) >= min(rates)
    assert abs(len(found) * 60 * minutes - len(rates) * step) <= 60 * minutes + 1


def test_it_says_what_the_table_says(study: Study) -> None:
    found = Found(report("clicks", study, static()))
    assert text.conclusion("clicks", study) in found.text
    for row in text.rows(study):
        assert all(cell in found.text for cell in row)
    for line in (*text.believed(study), *text.notes(study)):
        assert line in found.text


def test_hostile_names_are_text(study: Study) -> None:
    odd = replace(study.outcomes[0], name="</script><img src=x onerror=alert(1)>")
    page = report("clicks", replace(study, outcomes=(odd, *study.outcomes[1:])), static())
    assert "img" not in Found(page).tags
    assert len(re.findall("<script", page)) == 2


def test_one_that_gives_no_advice_says_why(study: Study) -> None:
    page = report("clicks", replace(study, outcomes=(), refused="it is odd"), static())
    assert "it is odd" in page
