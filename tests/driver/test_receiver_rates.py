"""What Spark itself makes of the rates that a declaration gives receivers, on the release at hand.

The rules of docs/backpressure.md that differ between releases: `spark.streaming.backpressure.
initialRate` is what a receiver begins with whether or not Spark's own estimator is on (from 2.4 on,
SPARK-18580), and `spark.streaming.receiver.maxRate` is above all.
"""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from pyspark import SparkContext

SparkContext._ensure_initialized()
jvm = SparkContext._jvm


def limits(settings, told):
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    clock = jvm.org.apache.spark.util.SystemClock()
    # Of a receiver: it lets records through at the rate of its RateLimiter, which it is.
    generator = jvm.org.apache.spark.streaming.receiver.BlockGenerator(None, 0, conf, clock)
    begins = generator.getCurrentLimit()
    generator.updateRate(told)
    return begins, generator.getCurrentLimit()


print(json.dumps([limits(*case) for case in json.loads(sys.argv[1])]))
"""
NONE = 2**63 - 1
INITIAL, MOST = "spark.streaming.backpressure.initialRate", "spark.streaming.receiver.maxRate"
ENABLED = "spark.streaming.backpressure.enabled"
CASES: list[tuple[dict[str, str], int, tuple[int, int]]] = [
    ({}, 500, (NONE, 500)),
    ({INITIAL: "100"}, 500, (100, 500)),
    ({INITIAL: "100", ENABLED: "false"}, 500, (100, 500)),
    ({INITIAL: "100", ENABLED: "true"}, 500, (100, 500)),
    ({MOST: "300"}, 500, (300, 300)),
    ({INITIAL: "400", MOST: "300"}, 200, (300, 200)),
    # A rate of 0 is none at all, and changes nothing: it must be 1 at least.
    ({INITIAL: "100"}, 0, (100, 100)),
]


@pytest.mark.spark
def test_what_a_receiver_begins_with_and_what_it_makes_of_what_it_is_told() -> None:
    cases = json.dumps([[settings, told] for settings, told, _ in CASES])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cases], capture_output=True, text=True, check=True
    )
    found = [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]
    assert found == [expected for _, _, expected in CASES]
