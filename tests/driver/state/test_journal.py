"""What is left in the checkpoint for the drivers to come."""

import json
import zlib
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state.journal import Begun, Journal, NotUnderstood
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.state.disk import Died, Disk

CHANGE = Begun("plan", 7, 4, 8, {"offsets/7": 20, "state/0/1/8.zip": 300})
LAST = Reconfiguration("plan", "counts", "over", 5.0, "changed", before=4, after=8, rows=9)


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(Disk(tmp_path))


def test_of_a_new_checkpoint_nothing_is_known(journal):
    assert not journal.there
    assert (journal.key_groups(), journal.begun(), journal.last()) == (None, None, None)


def test_key_groups_are_remembered(journal):
    journal.remember(64)
    assert journal.there
    assert journal.key_groups() == 64


@pytest.mark.parametrize(
    "text", [b"", b"{", b"7", b'{"key_groups": "x"}', b'{"key_groups": 0}', b'{"key_groups": true}']
)
def test_what_was_cut_off_is_not_there(journal, tmp_path, text):
    (tmp_path / "_sparkscale_state").mkdir()
    for name in ("key_groups", "begun", "verified", "last"):
        (tmp_path / "_sparkscale_state" / name).write_bytes(text)
    assert (journal.key_groups(), journal.begun(), journal.last()) == (None, None, None)
    assert not journal.is_verified(CHANGE)


def test_a_change_is_begun_verified_and_closed(journal):
    journal.begin(CHANGE)
    assert journal.begun() == CHANGE
    assert not journal.is_verified(CHANGE)
    journal.verify(CHANGE)
    assert journal.is_verified(CHANGE)
    journal.close()
    assert journal.begun() is None
    assert not journal.is_verified(CHANGE)


def test_what_was_verified_of_one_change_says_nothing_of_the_next(journal):
    journal.verify(CHANGE)  # of one that could not be closed to the end
    journal.begin(CHANGE)
    assert not journal.is_verified(CHANGE)


def test_nor_if_it_is_the_same_that_is_begun_again_and_killed_in_between(tmp_path):
    """What it changes would be taken for right."""
    Journal(Disk(tmp_path)).verify(CHANGE)
    for lives in range(2):
        with pytest.raises(Died):
            Journal(Disk(tmp_path, lives)).begin(CHANGE)
        journal = Journal(Disk(tmp_path))
        assert journal.begun() is None or not journal.is_verified(CHANGE)


@pytest.mark.parametrize(
    "more", [{}, {"began_at": 5}, {"seconds": {"checking": 1, "closing": 0.5}}, {"reason": "so"}]
)
def test_what_the_last_change_came_to_is_read_back(journal, more):
    journal.note(replace(LAST, **more))
    assert journal.last() == replace(LAST, **more)


def test_what_another_release_has_noted_is_passed_over(journal, tmp_path):
    journal.note(LAST)
    file = tmp_path / "_sparkscale_state" / "last"
    file.write_text(file.read_text().replace('"rows"', '"lines"'))
    assert journal.last() is None


@pytest.mark.parametrize(
    "field",
    [
        {"id": 5},
        {"query": None},
        {"began_at": "now"},
        {"began_at": float("nan")},
        {"rows": 1.5},
        {"rows": 2**70},
        {"seconds": {"checking": "long"}},
        {"seconds": [1.0]},
        {"group_rows": {"0": 1}},
        {"group_rows": [None]},
        {"outcome": True},
    ],
)
def test_a_value_of_another_type_in_the_last_change_is_not_told(journal, tmp_path, field):
    """Dagster would understand nothing of the whole status."""
    journal.note(LAST)
    file = tmp_path / "_sparkscale_state" / "last"
    file.write_text(json.dumps(json.loads(file.read_text()) | field))
    assert journal.last() is None


def put_begun(folder: Path, told: object) -> None:
    (folder / "_sparkscale_state").mkdir()
    (folder / "_sparkscale_state/begun").write_bytes(zlib.compress(json.dumps(told).encode()))


def test_what_a_newer_release_has_begun_is_known(journal, tmp_path):
    put_begun(tmp_path, asdict(CHANGE) | {"since": 5.0})
    assert journal.begun() == CHANGE


@pytest.mark.parametrize(
    "told",
    [
        {},
        [],
        {name: value for name, value in asdict(CHANGE).items() if name != "files"},
        asdict(CHANGE) | {"files": ["offsets/7"]},
        asdict(CHANGE) | {"files": {"offsets/7": None}},
        asdict(CHANGE) | {"batch": "7"},
        asdict(CHANGE) | {"after": None},
    ],
)
def test_what_has_begun_and_is_not_understood_is_not_passed_over(journal, tmp_path, told):
    """The state may be half of it new."""
    put_begun(tmp_path, told)
    with pytest.raises(NotUnderstood, match="start the stream once with that release"):
        journal.begun()
