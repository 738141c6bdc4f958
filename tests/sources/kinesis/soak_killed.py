"""Programs that read Kinesis, killed again and again at moments drawn by chance.

`test_exactly_once` and `soak_dstream_killed` have each kind of moment once.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.clusters.local import LocalCluster
from tests.clusters.running import submit_args
from tests.soaking import Soak
from tests.sources.kinesis import dstream_killed
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.killed import Program
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]


def reshard(made: Stream, soak: Soak) -> None:
    """Split or merge somewhere, or leave the shards as they are."""
    shards = made.open_shards()
    what = soak.chance.choice(("split", "merge", "nothing"))
    if what == "split" and len(shards) < 6:
        made.split(soak.chance.choice(shards).id)
    elif what == "merge" and len(shards) > 1:
        at = soak.chance.randrange(len(shards) - 1)
        made.merge(shards[at].id, shards[at + 1].id)


def test_a_structured_query_killed_at_any_moment_delivers_exactly_once(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path, soak: Soak
) -> None:
    made = stream(2)
    program = Program(tmp_path, proxy.url, made.name)

    def while_it_plans() -> None:
        rule = proxy.hang("GetRecords", times=10**9)
        with program.running() as process:
            program.wait(process, "planning", lambda: rule.left < 10**9)
        proxy.heal()

    def in_the_middle_of_a_batch() -> None:
        with program.holding(), program.running() as process:
            program.wait(process, "a held task", program.held)

    def as_a_log_grows(kind: str) -> None:
        with program.running() as process:
            batch = program.latest(kind) + soak.chance.randrange(1, 4)
            program.wait(process, f"{kind} {batch}", lambda: program.latest(kind) >= batch)

    moments: list[Callable[[], None]] = [
        while_it_plans,
        in_the_middle_of_a_batch,
        *(lambda kind=kind: as_a_log_grows(kind) for kind in ("offsets", "sink", "commits")),  # type: ignore[misc]
    ]
    with made.writing(40):
        for number in soak.rounds():
            soak.one_of(number, moments)()
            reshard(made, soak)
    program.finish()
    out = session.read.json(str(program.folder / "out")).select("data")
    made.assert_complete([row(each.data) for each in out.collect()], in_order=False)
    made.assert_complete(program.written())


@ONE
def test_a_dstream_killed_at_any_moment_loses_nothing(
    stream: Make,
    emulator: object,
    tmp_path: Path,
    local_cluster: LocalCluster,
    soak: Soak,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_args(local_cluster, tmp_path))
    made = stream(2)
    program = dstream_killed.Program(tmp_path, emulator.url, made.name)  # type: ignore[attr-defined]
    masters = ("local[2]", local_cluster._master())
    made.put(200)
    with made.writing(20):
        ways = [(hang, master) for hang in (30, 0) for master in masters]
        for number in soak.rounds():
            hang, master = soak.one_of(number, ways)
            with program.running(hang, master) as process:
                if hang:
                    program.wait(process, "rows", lambda: len(program.lines(-1)) >= 30)
                else:
                    commit = program.latest() + soak.chance.randrange(1, 5)
                    program.wait(process, "commits", lambda: program.latest() >= commit)  # noqa: B023
            reshard(made, soak)
    with program.running() as process:
        program.finish(process, made.total)
    made.assert_at_least_once([row(line[0]) for line in program.lines()])
