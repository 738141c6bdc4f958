"""A program with a direct DStream that is killed, again and again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale import LocalCluster
from tests.clusters.running import executors, submit_args
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.dstream_killed import Program
from tests.sources.kinesis.stream import Stream

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("emulator", ["kinesis-mock"], indirect=True)
def test_killed_again_and_again_it_loses_nothing(
    stream: Callable[..., Stream],
    emulator: Any,
    tmp_path: Path,
    local_cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master = local_cluster._master()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_args(local_cluster, tmp_path))
    kinesis = stream(2)
    program = Program(tmp_path, emulator.url, kinesis.name)
    kinesis.put(500)
    with kinesis.writing(10):
        # In the middle of the first batch.
        with program.running(hang_after=50) as process:
            program.wait(process, "50 rows", lambda: len(program.lines(-1)) >= 50)
        kinesis.split(kinesis.open_shards()[0].id)
        kinesis.put(500)
        # On a cluster an executor is killed first, whatever it is doing; the driver at a commit.
        with program.running(master=master) as process:
            begun = program.latest()
            program.wait(process, "a commit", lambda: program.latest() > begun)
            executors(local_cluster.state_dir, program.app())[0].kill()
            some = begun + 3
            program.wait(process, f"commit {some}", lambda: program.latest() >= some)
    with program.running(master=master) as process:
        program.finish(process, kinesis.total)
    rows = [row(line[0]) for line in program.lines()]
    kinesis.assert_at_least_once(rows)
    assert len(rows) >= kinesis.total + 50, "the first batch was not repeated"

    # A graceful stop has committed all that was written.
    position = json.loads((program.store / str(program.latest())).read_text())["shards"]
    for _, shard, sequence in program.lines():
        assert position[shard]["k"] == "END" or int(position[shard]["s"]) >= int(sequence)
