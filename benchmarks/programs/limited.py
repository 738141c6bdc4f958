"""A DStream of a socket, and records that take their time: `ESTIMATOR PORT SECONDS FILE COSTS`.

COSTS is JSON: [[second, seconds for a record from then on], ...]. A batch sleeps that long, so what
it takes does not depend on the machine. With `pid` Spark's own backpressure limits the receiver,
with another estimator that one, through the same message to it. FILE gets a line of JSON for each
completed batch.
"""

import json
import sys
import threading
import time
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from dagster_sparkscale.driver.backpressure.estimators import MeasuredBatch, estimator_of
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan

INTERVAL = 2
FIRST_RATE = 100
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
}
PIDS = {"spark.streaming.backpressure.enabled": "true"}
OURS = {"spark.streaming.backpressure.initialRate": str(FIRST_RATE)}


class Limiter(StreamingListener):  # type: ignore[misc]
    """Writes down each batch, and says what the receiver may take from then on."""

    def __init__(self, streaming: Any, estimator: Any, file: Any) -> None:
        self._streaming, self._estimator, self._file = streaming, estimator, file
        self._lock = threading.Lock()
        self._cold = True

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        info = batchCompleted.batchInfo()
        records, ended = int(info.numRecords()), int(info.processingEndTime())
        took, waited = int(info.processingDelay()), int(info.schedulingDelay())
        with self._lock:
            print(json.dumps([info.submissionTime(), waited, took, records]), file=self._file)
            self._file.flush()
            if self._estimator is None:
                return
            cold, self._cold = self._cold and records > 0, self._cold and records == 0
            self._estimator.completed(
                MeasuredBatch(ended / 1000, records, took, 1000 * INTERVAL, waited, cold=cold)
            )
            tracker = self._streaming._jssc.ssc().scheduler().receiverTracker()
            tracker.sendRateUpdate(0, int(self._estimator.rate))


def main(kind: str, port: int, seconds: float, file: str, costs: list[list[float]]) -> None:
    conf = SparkConf().setMaster("local[3]").setAppName(kind)
    for name, value in (CONF | (PIDS if kind == "pid" else OURS)).items():
        conf.set(name, value)
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    streaming = StreamingContext(context, INTERVAL)
    began = time.monotonic()

    def cost() -> float:
        at = time.monotonic() - began
        return next(value for since, value in reversed(costs) if at >= since)

    def process(batch: Any) -> None:
        each = cost()

        def sleep(records: Any) -> list[int]:
            count = sum(1 for _ in records)
            time.sleep(count * each)
            return [count]

        batch.coalesce(1).mapPartitions(sleep).count()

    streaming.socketTextStream("127.0.0.1", port).foreachRDD(process)
    estimator = None if kind == "pid" else estimator_of(EstimatorPlan(kind, min_rate=FIRST_RATE))
    with open(file, "w") as out:
        streaming.addStreamingListener(Limiter(streaming, estimator, out))
        streaming.start()
        print(json.dumps(time.time()), flush=True)
        began = time.monotonic()
        streaming.awaitTerminationOrTimeout(seconds)
        streaming.stop(stopSparkContext=True, stopGraceFully=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5]))
