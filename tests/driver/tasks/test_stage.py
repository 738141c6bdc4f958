"""What a look says of the longest stage."""

from typing import Any

from tests.driver.tasks.store import Spark


class Small(Spark):
    """A stage of three tasks: the one that ran longest waited least for the driver."""

    def lastStageAttempt(self, id: int) -> dict[str, Any]:
        counts = {"numCompleteTasks": 3, "numTasks": 3, "jvmGcTime": 0}
        times = {"firstTaskLaunchedTime": 1_000_000, "completionTime": 1_000_900}
        return {"stageId": id, "attemptId": 0} | counts | times

    def executorSummary(self, _stage: int, _attempt: int) -> dict[str, Any]:
        return {"0": {"taskTime": 1010, "succeededTasks": 3}}

    def taskList(self, _stage: int, _attempt: int, place: int, *_: Any) -> list[dict[str, Any]]:
        ran, lasted = [(9, 10), (5, 500), (1, 500)][place]
        metrics = {"executorRunTime": ran}
        task = {"executorId": "0", "partitionId": place, "index": place}
        return [task | {"duration": lasted, "taskMetrics": metrics}]


def test_the_longest_task_is_the_one_that_ran_longest_and_its_waits_count_for_nothing():
    spark = Small()
    reader = spark.reader()
    spark.ran(1000.0, 1001.0)
    spark.now = 1002.0
    stage = reader.look().stage
    assert stage is not None
    assert (stage.longest_ms, stage.median_ms, stage.partition) == (9, 5, 0)
