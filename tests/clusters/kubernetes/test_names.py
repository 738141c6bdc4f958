"""What the objects of streams are called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.kubernetes import names

STREAMS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,62}", fullmatch=True)
EPOCHS = st.integers(min_value=1, max_value=10**9)
HOST = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""What the name of a Service may be."""


@pytest.mark.parametrize(
    ("stream", "word"),
    [
        ("clicks", "clicks"),
        ("word_count", "word-count"),
        ("Clicks", "clicks-921fc980"),
        ("clicks_", "clicks-ed0f5337"),
        ("a" * 41, "a" * 31 + "-c0f8bd4d"),
    ],
)
def test_a_plain_name_stays_what_it_is(stream, word):
    assert names.short_name(stream) == word


@given(STREAMS, EPOCHS, st.sampled_from([63, names.EXECUTORS]))
def test_every_name_can_be_that_of_a_host(stream, epoch, longest):
    name = names.of_epoch(stream, epoch, longest)
    assert HOST.fullmatch(name) and len(name) <= longest
    assert name.startswith("sparkscale-") and name.endswith(f"-{epoch}")


@given(STREAMS)
def test_every_word_can_be_a_label(stream):
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", names.short_name(stream))
    assert len(names.short_name(stream)) <= 40


@given(st.lists(st.tuples(STREAMS, EPOCHS), unique=True, max_size=20))
def test_no_two_starts_have_objects_of_one_name(starts):
    for longest in (63, names.EXECUTORS):
        made = {names.of_epoch(*start, longest) for start in starts}
        assert len(made) == len(starts)


@given(STREAMS, STREAMS, EPOCHS)
def test_nothing_of_a_start_is_called_as_what_is_remembered(stream, other, epoch):
    remembered = {names.of_record(other), names.of_claim(other)}
    assert names.of_epoch(stream, epoch) not in remembered
    assert len(remembered) == 2


@given(st.text(), st.text())
def test_a_checkpoint_has_a_claim_of_its_own(one, other):
    assert (names.of_claim(one) == names.of_claim(other)) == (one == other)
    assert re.fullmatch(r"[a-z0-9.]+", names.of_claim(one))


def test_a_selector_asks_for_every_label():
    assert names.selector({"a": "1", "b": ""}) == "a=1,b"
