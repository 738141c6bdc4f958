"""What is done each time that a program starts a query, with its checkpoint on this disk."""

from pathlib import Path

import pytest

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.state import closing, hook, layout
from dagster_sparkscale.driver.state.hook import MOST_TOLD, Declared, StateHook
from dagster_sparkscale.driver.state.journal import Begun, Journal
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.undo import files_of
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.state.disk import Disk, checkpoint, entry, put, rewrite

PLAN = StatePlan("plan", 16, 16, queries=("counts",))


class Session:
    """One that has only its settings: whatever would read state by it fails."""

    def __init__(self) -> None:
        self.conf: dict[str, str] = {}


@pytest.fixture(autouse=True)
def _on_this_disk(monkeypatch):
    monkeypatch.setattr(hook, "Folder", lambda _session, place: Disk(Path(place)))


def started(its: StateHook, place: Path, name: str = "counts") -> hook.Known | None:
    options = {"checkpointLocation": str(place), "queryName": name}
    return its.before_start(NewQuery(Session(), options))


def begin(place: Path) -> None:
    """A change that is cut off while it is rewriting."""
    disk = Disk(place)
    Journal(disk).begin(Begun("earlier", 2, 4, 8, files_of(disk)))
    rewrite(disk, 8)


def test_a_plan_is_for_the_first_start_of_a_query_alone(tmp_path):
    """One that was new then may be active still when the program starts it again."""
    its = StateHook("4.3.0", Declared(16, False, PLAN))
    started(its, tmp_path)
    checkpoint(tmp_path)  # it has run since
    known = started(its, tmp_path)
    (told,) = its.reconfigurations
    assert told.reason is not None and told.reason.startswith("it has not run a batch yet")
    assert known is not None and known.partitions == 4


def test_a_first_start_that_could_not_be_prepared_is_tried_again(tmp_path, monkeypatch):
    checkpoint(tmp_path)
    its = StateHook("4.3.0", Declared(16, False, PLAN))
    with monkeypatch.context() as broken, pytest.raises(OSError, match="no answer"):
        broken.setattr(Disk, "exists", fails)
        started(its, tmp_path)
    started(its, tmp_path)
    assert [each.id for each in its.reconfigurations] == [PLAN.id]


def fails(*_: object) -> bool:
    raise OSError("no answer")


def test_a_stream_without_state_starts_where_its_checkpoint_can_t_be_looked_at(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(Disk, "exists", fails)
    assert started(StateHook("4.3.0", Declared()), tmp_path) is None
    said = "the checkpoint of query 'counts' can't be looked at: no answer"
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("declared", [Declared(), Declared(16)])
def test_an_offset_log_that_is_not_understood_keeps_no_query_from_starting(
    tmp_path, declared, capfd
):
    """Spark may know more of it; nothing has begun there."""
    checkpoint(tmp_path)
    put(tmp_path, "offsets/2", "v9\nof another kind")
    assert started(StateHook("4.3.0", declared), tmp_path) is None
    said = f"of the state in {tmp_path.name} nothing can be known: {tmp_path.name}/offsets/2:"
    assert said in capfd.readouterr().err


def test_a_program_that_tries_for_ever_is_told_of_once(tmp_path, monkeypatch):
    checkpoint(tmp_path)
    begin(tmp_path)
    its = StateHook("4.3.0", Declared(16))
    monkeypatch.setattr(Disk, "delete", fails)
    for _ in range(3):
        with pytest.raises(closing.InTheMiddle):
            started(its, tmp_path)
    (told,) = its.reconfigurations
    assert (told.id, told.outcome) == ("earlier", "failed")
    monkeypatch.undo()
    monkeypatch.setattr(hook, "Folder", lambda _session, place: Disk(Path(place)))
    known = started(its, tmp_path)
    (told,) = its.reconfigurations
    assert told.outcome == "undone"
    assert known is not None and known.last is not None and known.last.outcome == "undone"


def test_key_groups_are_those_from_before_the_plan(tmp_path):
    checkpoint(tmp_path)
    its = StateHook("4.3.0", Declared(16, False, StatePlan("plan", 32, 32, queries=("counts",))))
    started(its, tmp_path)
    (told,) = its.reconfigurations
    assert told.outcome == "refused"
    assert told.reason is not None and "has 16 key groups" in told.reason
    assert entry(4).splitlines()[1] in (tmp_path / "offsets/2").read_text()
    assert layout.OURS in {each.name for each in tmp_path.iterdir()}


LISTS = ("group_rows", "partition_rows", "partition_rows_after")


@pytest.mark.parametrize("long", LISTS)
def test_what_the_last_change_came_to_is_told_without_its_longest_lists(tmp_path, long):
    """Each status has it, of each query, for as long as nothing is changed: with all 32768 key
    groups, those of 50 queries are more than Dagster takes."""
    checkpoint(tmp_path)
    rows = {name: (8,) * (MOST_TOLD + (name == long)) for name in LISTS}
    told = Reconfiguration("plan", "counts", "over", 5.0, "changed", rows=9, **rows)
    Journal(Disk(tmp_path)).note(told)
    known = started(StateHook("4.3.0", Declared(32768)), tmp_path)
    assert known is not None and known.last is not None
    assert known.last.rows == 9
    for name in LISTS:
        shown = getattr(known.last, name)
        assert shown is None if name == long else list(shown) == [8] * MOST_TOLD


def test_two_queries_of_one_name_in_two_sessions_are_told_of_both(tmp_path):
    its = StateHook("4.3.0", Declared(16, False, PLAN))
    for name in ("one", "other"):
        checkpoint(tmp_path / name)
        started(its, tmp_path / name)
    assert [(each.id, each.query) for each in its.reconfigurations] == [("plan", "counts")] * 2
