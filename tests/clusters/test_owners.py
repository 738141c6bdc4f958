"""Whose a stream is, by what is remembered of it and what is declared."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.records.owners import (
    Anothers,
    identity_of,
    refuse_anothers,
    whose_instead,
)
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.drift import declared
from tests.fakes import structured

OURS, THEIRS = "web/spark_cluster", "batch/other"
CLICKS = structured(program="jobs/clicks.py", checkpoint_location="s3a://web/clicks")
OTHER = structured(program="jobs/other.py", checkpoint_location="s3a://batch/clicks")
KNOWN = replace(
    Record.new("1" * 16), epoch=1, owner=OURS, asset=("clicks",), identity=identity_of(CLICKS)
)


def test_what_another_declares_is_told_with_what_tells_the_two_apart() -> None:
    assert whose_instead(KNOWN, OTHER, THEIRS) == (
        "'clicks' is a stream of code location 'web', cluster 'spark_cluster', which declares it "
        "with program jobs/clicks.py, checkpoint_location s3a://web/clicks: two deployments that "
        "share what is remembered must not declare one name. Rename this one, or give it a "
        "namespace or state folder of its own; to take that stream over, materialize its asset "
        "with whoever_declares_it: true"
    )
    elsewhere = structured(
        program=CLICKS.program, checkpoint_location=CLICKS.checkpoint_location, key_prefix=["batch"]
    )
    assert "declares it with asset clicks: " in str(whose_instead(KNOWN, elsewhere, THEIRS))
    with pytest.raises(Anothers, match="is a stream of code location 'web'"):
        refuse_anothers(KNOWN, OTHER, THEIRS)


def test_a_stream_is_nobody_elses_where_nothing_says_so() -> None:
    for known, stream, owner in (
        (None, OTHER, THEIRS),
        (replace(KNOWN, epoch=0), OTHER, THEIRS),  # it was never started
        (replace(KNOWN, owner=""), OTHER, THEIRS),  # by an older release, or a script
        (KNOWN, OTHER, ""),  # a script
        (KNOWN, OTHER, OURS),  # what is declared has changed
        (KNOWN, CLICKS, THEIRS),  # the code location has another name
        (replace(KNOWN, asset=()), CLICKS, THEIRS),
    ):
        assert whose_instead(known, stream, owner) is None
        refuse_anothers(known, stream, owner)


def test_an_older_release_remembers_what_the_driver_was_started_with() -> None:
    older = replace(KNOWN, identity=None, declared=declared(CLICKS))
    assert "program jobs/clicks.py" in str(whose_instead(older, OTHER, THEIRS))
    assert whose_instead(older, CLICKS, THEIRS) is None
    assert whose_instead(replace(older, declared=None), OTHER, THEIRS) is None
    # What was taken over counts, not what its driver was started with.
    taken = replace(older, owner=THEIRS, identity=identity_of(OTHER))
    assert "program jobs/other.py" in str(whose_instead(taken, CLICKS, OURS))


def test_an_owner_in_words() -> None:
    assert replace(KNOWN, owner="a/b.py/spark").whose == "code location 'a/b.py', cluster 'spark'"
    assert replace(KNOWN, owner="").whose == ""
