"""A change whose file system fails at one moment, with Spark's part of it played on this disk."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.state import reconfigure, tasks
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Part
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.state.plans import Plan
from dagster_sparkscale.driver.state.reporting import Reporting
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.state.disk import Died, Disk, checkpoint, content, entry, put, rewrite
from tests.waiting import HANGS

STORE = (0, "default")


@pytest.fixture(autouse=True)
def _states(monkeypatch) -> Iterator[None]:
    """A row in each of 8 key groups."""

    def fingerprint(_session, _path, _of, batch, partitions, groups) -> Fingerprint:
        parts = {(g, g % partitions): Part(1, (g, g), 0) for g in range(groups)}
        return Fingerprint(batch, partitions, {STORE: parts})

    monkeypatch.setattr(reconfigure, "stores", lambda *_: {STORE: "stateStoreSave"})
    monkeypatch.setattr(reconfigure, "fingerprint", fingerprint)
    yield


class Context:
    """A SparkContext, as far as it tells of the tasks of a job."""

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {"spark.jobGroup.id": "the program's"}
        self.tasks: list[threading.Thread] = []

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def setJobGroup(self, group: str, description: str) -> None:
        self.properties |= {"spark.jobGroup.id": group, "spark.job.description": description}

    def statusTracker(self) -> "Context":
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        assert group == self.properties["spark.jobGroup.id"] != "the program's"
        return [1]

    def getJobInfo(self, job: int) -> SimpleNamespace:
        return SimpleNamespace(stageIds=[1, 2])

    def getStageInfo(self, stage: int) -> SimpleNamespace | None:
        running = sum(task.is_alive() for task in self.tasks)
        return SimpleNamespace(numActiveTasks=running) if stage == 1 else None


def changed(
    disk: Disk,
    place: Path,
    meanwhile: Callable[[], None] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
    context: Context | None = None,
) -> Reporting:
    told = Reporting("plan", "counts")

    def repartition(_path: str, partitions: int, _exactly_once: bool) -> None:
        rewrite(disk, place, partitions)
        meanwhile()

    session = SimpleNamespace(
        _streamingCheckpointManager=SimpleNamespace(repartition=repartition),
        sparkContext=context or Context(),
    )
    plan = Plan("plan", 8, 8)
    reconfigure.change(session, disk, Journal(disk), plan, told, "4.3.0", stopping)
    return told


class Full(Disk):
    """It has no room for one file, of which it says so once that is written, or before."""

    def __init__(self, root: Path, name: str, *, whole: bool) -> None:
        super().__init__(root)
        self._name, self._whole = name, whole

    def write(self, name: str, content: bytes) -> None:
        if name.endswith(self._name):
            super().write(name, content if self._whole else content[:5])
            raise OSError("No space left on device")
        super().write(name, content)


def outcome(told: Reconfiguration) -> tuple[str | None, str]:
    return told.outcome, told.reason or ""


def test_it_is_changed(tmp_path):
    checkpoint(tmp_path)
    assert changed(Disk(tmp_path), tmp_path).told.outcome == "changed"
    assert Journal(Disk(tmp_path)).begun() is None


@pytest.mark.parametrize("whole", [True, False])
def test_no_room_to_write_down_what_there_is(tmp_path, whole):
    """Nothing was touched, and the next start must find nothing to be undone."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    came, reason = outcome(changed(Full(tmp_path, "/begun", whole=whole), tmp_path).told)
    assert came == "refused" and "No space left" in reason
    assert content(tmp_path) == was
    assert Journal(Disk(tmp_path)).begun() is None


@pytest.mark.parametrize("whole", [True, False])
def test_no_room_to_write_down_that_it_is_right(tmp_path, whole):
    """It is put back at once."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    disk = Full(tmp_path, "/verified", whole=whole)
    came, reason = outcome(changed(disk, tmp_path).told)
    assert came == "undone" and "No space left" in reason
    assert content(tmp_path) == was
    assert not list((tmp_path / "_sparkscale_state").iterdir())


def test_killed_while_it_puts_back_what_it_could_not_say_is_right(tmp_path):
    """Nothing is left that says so of what is half undone."""
    checkpoint(tmp_path)
    was = content(tmp_path)

    class Dying(Full):
        def delete(self, name: str) -> None:
            if name.startswith("commits/"):
                raise Died
            super().delete(name)

    with pytest.raises(Died):
        changed(Dying(tmp_path, "/verified", whole=True), tmp_path)
    disk, told = Disk(tmp_path), Reporting("plan", "counts")
    reconfigure.resume(disk, Journal(disk), lambda *_, **__: told)
    assert told.told.outcome == "undone"
    assert content(tmp_path) == was


def test_a_listing_that_lacks_files_is_not_relied_on(tmp_path):
    checkpoint(tmp_path)
    was = content(tmp_path)

    class Late(Disk):
        def files(self, folder: str = "") -> Mapping[str, int]:
            return {n: size for n, size in super().files(folder).items() if n != "commits/2"}

    came, reason = outcome(changed(Late(tmp_path), tmp_path).told)
    assert came == "refused" and "lists only some of its files, and not commits/2" in reason
    assert content(tmp_path) == was


@pytest.mark.parametrize("right", [True, False])
def test_what_another_driver_has_undone_meanwhile_is_that_one_s(tmp_path, right):
    """This one was cut off from its cluster, as by a network; the other has run a batch since."""
    checkpoint(tmp_path)
    was = content(tmp_path)

    def meanwhile() -> None:
        disk = Disk(tmp_path)
        reconfigure.resume(disk, Journal(disk), lambda *_, **__: Reporting("plan", "counts"))
        assert content(tmp_path) == was
        put(tmp_path, "offsets/3", entry(4))
        put(tmp_path, "commits/3", "v1\n{}")
        put(tmp_path, "state/0/1/4.changelog", "batch 3")
        runs.update(content(tmp_path))
        if not right:
            raise RuntimeError("Spark has found another's files")

    runs: dict[str, bytes] = {}
    with pytest.raises(reconfigure.InTheMiddle, match="another driver has undone or closed it"):
        changed(Disk(tmp_path), tmp_path, meanwhile)
    assert content(tmp_path) == runs


@pytest.mark.parametrize("step", ["checking", "measuring"])
def test_a_driver_that_was_asked_to_stop_begins_none(tmp_path, step):
    """Its end may come before the change is through: a pod has 30 s."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    asked = iter([step == "checking", True])
    came, reason = outcome(changed(Disk(tmp_path), tmp_path, stopping=lambda: next(asked)).told)
    assert came == "refused" and "was asked to stop" in reason
    assert content(tmp_path) == was


class Failing:
    """One task has failed, and with it the job; another is about to write a partition's state."""

    def __init__(self, disk: Disk, context: Context) -> None:
        self._disk, self._context = disk, context
        self.go_on = threading.Event()

    def __call__(self) -> None:
        task = threading.Thread(target=self._write)
        self._context.tasks.append(task)
        task.start()
        raise RuntimeError("a task has failed")

    def _write(self) -> None:
        self.go_on.wait(HANGS)
        self._disk.write("state/0/1/4.zip", b"of the new partition 1")


def test_what_a_task_of_a_failed_job_writes_late_is_undone_too(tmp_path):
    """Else the query would find it, as a snapshot of its own next batch."""
    checkpoint(tmp_path)
    was, disk, context = content(tmp_path), Disk(tmp_path), Context()
    failing = Failing(disk, context)
    threading.Timer(0.3, failing.go_on.set).start()
    came, reason = outcome(changed(disk, tmp_path, failing, context=context).told)
    context.tasks[0].join(HANGS)
    assert came == "undone" and "a task has failed" in reason
    assert content(tmp_path) == was
    assert context.properties["spark.jobGroup.id"] == "the program's"


def test_tasks_that_do_not_end_leave_it_to_a_driver_with_executors_of_its_own(
    tmp_path, monkeypatch
):
    checkpoint(tmp_path)
    was, disk, context = content(tmp_path), Disk(tmp_path), Context()
    failing = Failing(disk, context)
    monkeypatch.setattr(tasks, "WITHIN", 0.2)
    with pytest.raises(reconfigure.InTheMiddle, match="1 tasks of the change have not ended"):
        changed(disk, tmp_path, failing, context=context)
    failing.go_on.set()
    context.tasks[0].join(HANGS)
    told = Reporting("plan", "counts")
    reconfigure.resume(disk, Journal(disk), lambda *_, **__: told)
    assert told.told.outcome == "undone"
    assert content(tmp_path) == was
