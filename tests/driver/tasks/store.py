"""A double of Spark's status store: jobs that have ended, and when it has heard of each."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from dagster_sparkscale.driver.tasks.reading import TaskReader


@dataclass
class Spark:
    """A JVM whose store keeps some jobs; `now` is its clock, in seconds."""

    now: float = 1000.0
    retained: int = 1000
    jobs: list[dict[str, Any]] = field(default_factory=list)
    broken: bool = False
    """Whether stages can't be read."""

    def ran(self, began: float, ended: float, description: str | None = None) -> None:
        """A job has ended, of which the store hears now; it forgets those that ended first."""
        times = {"submissionTime": int(began * 1000), "completionTime": int(ended * 1000)}
        id = self.jobs[-1]["jobId"] + 1 if self.jobs else 0
        self.jobs.append({"jobId": id, "description": description, "stageIds": [id], **times})
        if len(self.jobs) > self.retained:
            oldest = sorted(self.jobs, key=lambda job: job["completionTime"])
            gone = oldest[: max(self.retained // 10, len(self.jobs) - self.retained)]
            self.jobs = [job for job in self.jobs if job not in gone]

    def reader(self) -> TaskReader:
        """A reader that has looked once."""
        reader = TaskReader(self, lambda: self.now)  # type: ignore[arg-type]
        assert reader.look() is None
        return reader

    def read(self, found: Any) -> Any:
        return found

    @property
    def spark(self) -> Any:
        conf = SimpleNamespace(get=lambda _key, _default: str(self.retained))
        return SimpleNamespace(statusStore=lambda: self, conf=lambda: conf)

    @property
    def view(self) -> Any:
        lang = SimpleNamespace(Class=SimpleNamespace(forName=lambda name: name))
        java = SimpleNamespace(lang=lang, util=SimpleNamespace(ArrayList=list))
        v1 = SimpleNamespace(TaskSorting=SimpleNamespace(DECREASING_RUNTIME="longest first"))
        utils = SimpleNamespace(viewToSeq=lambda found: found)
        status = SimpleNamespace(KVUtils=utils, api=SimpleNamespace(v1=v1))
        spark = SimpleNamespace(spark=SimpleNamespace(status=status))
        return SimpleNamespace(java=java, org=SimpleNamespace(apache=spark))

    def executorList(self, _active: bool) -> list[Any]:
        return []

    def lastStageAttempt(self, _id: int) -> dict[str, Any]:
        if self.broken:
            raise OSError("the store's disk is full")
        return {"firstTaskLaunchedTime": None, "completionTime": None, "numCompleteTasks": 0}

    def store(self) -> Any:
        return SimpleNamespace(view=lambda _kind: _Jobs(self.jobs))


@dataclass
class _Jobs:
    """The view of a KVStore on jobs, by when they have ended."""

    jobs: list[dict[str, Any]]

    def index(self, name: str) -> "_Jobs":
        return _Jobs(sorted(self.jobs, key=lambda job: job[name]))

    def reverse(self) -> "_Jobs":
        return _Jobs(self.jobs[::-1])

    def last(self, value: int) -> "_Jobs":
        return _Jobs([job for job in self.jobs if job["completionTime"] >= value])

    def max(self, most: int) -> list[dict[str, Any]]:
        return [{"info": job} for job in self.jobs[:most]]
