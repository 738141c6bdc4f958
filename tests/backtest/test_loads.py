"""Loads: how many records have come, and files with them."""

import gzip
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.backtest.loads import Load, constant, joined, read_csv

STEPS = Load("steps", 10.0, (1.0, 0.0, 3.0))
loads = st.builds(
    Load,
    st.just("drawn"),
    st.floats(0.5, 300),
    st.lists(st.floats(0, 1e5), min_size=1, max_size=20).map(tuple),
)


class TestLoad:
    def test_what_comes_in_a_step_comes_evenly(self):
        assert [STEPS.arrived(at) for at in (0, 5, 10, 15, 25, 30)] == [0, 5, 10, 10, 25, 40]

    def test_nothing_comes_after_its_end(self):
        assert STEPS.arrived(1e6) == STEPS.records == 40
        assert STEPS.rate(30) == STEPS.rate(-1) == 0

    def test_a_moment_has_the_rate_of_its_step(self):
        assert [STEPS.rate(at) for at in (0, 9.9, 10, 29.9)] == [1, 1, 0, 3]

    def test_its_mean_and_its_peak(self):
        assert (STEPS.mean, STEPS.peak, STEPS.seconds) == (40 / 30, 3.0, 30.0)

    @given(loads, st.floats(0, 1))
    def test_the_records_that_have_come_tell_when_they_had(self, load, share):
        records = share * load.records
        at = load.came(records)
        assert 0 <= at <= load.seconds
        assert load.arrived(at) == pytest.approx(records, rel=1e-6, abs=1e-6)

    @given(loads, st.floats(0.1, 10))
    def test_scaled_it_has_as_many_times_the_records(self, load, factor):
        assert load.scaled(factor).records == pytest.approx(factor * load.records)

    def test_a_part_has_the_whole_steps_within(self):
        assert STEPS.part(10, 30).rates == (0.0, 3.0)
        assert STEPS.part(4, 29.9).rates == (0.0,)
        assert STEPS.part(-100, 1e6) == STEPS

    def test_a_part_without_a_whole_step_is_refused(self):
        with pytest.raises(ValueError, match=r"begin = 1, end = 9: must have a whole step of 10 s"):
            STEPS.part(1, 9)

    def test_longer_steps_have_the_means_of_theirs(self):
        assert Load("l", 1.0, (1, 3, 5, 7, 9)).in_steps(2.0) == Load("l", 2.0, (2, 6))

    def test_longer_steps_must_be_whole_numbers_of_its_own(self):
        with pytest.raises(ValueError, match="step = 15: must be a whole number of 10 s"):
            STEPS.in_steps(15)
        with pytest.raises(ValueError, match="step = 40: must be within the 30 s"):
            STEPS.in_steps(40)

    def test_loads_of_one_step_are_joined(self):
        both = joined([STEPS, constant(2, 20, step=10.0)], "both")
        assert (both.name, both.rates) == ("both", (1, 0, 3, 2, 2))
        with pytest.raises(ValueError, match=r"steps = \[10.0, 60.0\]: must be one"):
            joined([STEPS, constant(2, 60)], "both")

    @pytest.mark.parametrize(
        ("step", "rates", "fault"),
        [
            (0.0, (1.0,), "step = 0.0: must be seconds, above 0"),
            (math.nan, (1.0,), "step = nan"),
            (1.0, (), "rates = ()"),
            (1.0, (1.0, -2.0), "rates: -2.0 must be records per second, at least 0"),
            (1.0, (math.nan,), "rates: nan"),
            (60.0, (1e308, 1.0), "rates: 1e+308 must be less"),
        ],
    )
    def test_what_is_no_load_is_refused(self, step, rates, fault):
        with pytest.raises(ValueError) as refused:
            Load("l", step, rates)
        assert fault in str(refused.value)


class TestFiles:
    HEAD = "seconds,records_per_second\n"

    def test_a_file_is_read(self, tmp_path):
        file = tmp_path / "clicks.csv"
        file.write_text(self.HEAD + "0,1.5\n60,2\n120,0\n")
        assert read_csv(file) == Load("clicks", 60.0, (1.5, 2.0, 0.0))

    def test_so_is_one_that_is_compressed(self, tmp_path):
        file = tmp_path / "clicks.csv.gz"
        file.write_bytes(gzip.compress((self.HEAD + "100,1\n101,2\n").encode()))
        assert read_csv(str(file)) == Load("clicks", 1.0, (1.0, 2.0))

    def test_times_may_be_rounded(self, tmp_path):
        file = tmp_path / "l.csv"
        file.write_text(self.HEAD + "0,1\n0.333,1\n0.667,1\n1,1\n")
        assert read_csv(file).seconds == pytest.approx(4 / 3, rel=1e-2)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "line 1 = '': must be 'seconds,records_per_second'"),
            ("time,rate\n0,1\n", "line 1 = 'time,rate'"),
            (HEAD + "0,1\n", "1 rows: must be two at least"),
            (HEAD + "0,1\n60,x\n", "line 3 = '60,x': must be two numbers"),
            (HEAD + "0,1\n60\n", "line 3 = '60': must be two numbers"),
            (HEAD + "0,1\n60,-1\n", "line 3: records_per_second = -1.0: must be at least 0"),
            (HEAD + "0,1\n60,nan\n", "line 3: records_per_second = nan"),
            (HEAD + "0,1\ninf,1\n", "line 3: seconds = inf"),
            (HEAD + "0,1\n60,1\n180,1\n240,1\n", "line 4: seconds = 180 is 120 s after"),
            (HEAD + "0,1\n0,1\n0,1\n", "must be one step of 0 s"),
        ],
    )
    def test_what_is_no_load_is_refused_by_file_and_line(self, tmp_path, text, fault):
        file = tmp_path / "l.csv"
        file.write_text(text)
        with pytest.raises(ValueError) as refused:
            read_csv(file)
        assert str(refused.value).startswith(f"{file}: ")
        assert fault in str(refused.value)

    def test_what_is_not_compressed_is_refused(self, tmp_path):
        file = tmp_path / "l.csv.gz"
        file.write_text(self.HEAD)
        with pytest.raises(ValueError, match="must be CSV"):
            read_csv(file)

    def test_nor_is_what_was_damaged_since(self, tmp_path):
        whole = gzip.compress((self.HEAD + "100,1\n101,2\n").encode())
        file = tmp_path / "l.csv.gz"
        for place in range(10, len(whole)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
            with pytest.raises(ValueError, match="must be CSV"):
                read_csv(file)
