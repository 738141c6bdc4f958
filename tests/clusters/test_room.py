"""What an embedded cluster can never give is refused when it is declared."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.standalone.room import Room
from dagster_sparkscale.declare.fields import mebibytes
from tests.fakes import dstream, structured

ROOM = Room(workers=2, cores=4, memory="2g")


@pytest.mark.parametrize(
    ("memory", "size"), [("512k", 0.5), ("512m", 512), ("2g", 2048), ("1T", 1024 * 1024)]
)
def test_memory_is_read_as_a_jvm_does(memory: str, size: float) -> None:
    assert mebibytes(memory) == size


@pytest.mark.parametrize(
    ("cores", "memory", "executors"),
    [(1, "512m", 8), (1, "1g", 4), (2, "1g", 4), (3, "512m", 2), (4, "2g", 2), (5, "1g", 0)],
)
def test_an_executor_is_on_one_worker(cores: int, memory: str, executors: int) -> None:
    assert ROOM.executors(cores, memory) == executors


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"executors": 4},
        {"executor_cores": 4, "executor_memory": "2g"},
        {"autoscale": RatioPolicy(max_executors=4)},
        {"autoscale": RatioPolicy()},
        # No more is declared than that there may be more cores.
        {"autoscale": RatioPolicy(), "spark_conf": {"spark.cores.max": 100}},
        # What is declared is more than its own cores admit, and those are there.
        {"autoscale": RatioPolicy(max_executors=9), "spark_conf": {"spark.cores.max": 4}},
    ],
)
def test_what_fits_is_not_refused(fields: dict[str, Any]) -> None:
    assert ROOM.misfit(structured(**fields)) is None


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"executor_cores": 5}, "executor_cores = 5: a worker of the embedded cluster has 4, and"),
        ({"executor_memory": "3g"}, "executor_memory = '3g': a worker of the embedded cluster has"),
        ({"executors": 5}, "executors = 5: the embedded cluster has room for 4 executors of"),
        ({"autoscale": RatioPolicy(min_executors=5)}, "min_executors = 5: the embedded cluster"),
        ({"autoscale": RatioPolicy(initial_executors=5)}, "initial_executors = 5: the embedded"),
        ({"autoscale": RatioPolicy(max_executors=5)}, "max_executors = 5: the embedded cluster"),
    ],
)
def test_what_can_never_be_is_named(fields: dict[str, Any], fault: str) -> None:
    misfit = ROOM.misfit(structured(**fields))
    assert misfit is not None and misfit.startswith(fault)


def test_it_says_what_would_be_right() -> None:
    assert ROOM.misfit(structured(executor_memory="3g")) == (
        "executor_memory = '3g': a worker of the embedded cluster has 2g, and no executor would "
        "ever start: declare less, or raise memory_per_worker"
    )
    assert ROOM.misfit(structured(autoscale=RatioPolicy(max_executors=100))) == (
        "max_executors = 100: the embedded cluster has room for 4 executors of 1 core(s) and 1g, "
        "on 2 worker(s) of 4 core(s) and 2g: declare at most 4, or give LocalCluster more workers, "
        "cores_per_worker or memory_per_worker"
    )


def test_receivers_need_their_place() -> None:
    misfit = Room(1, 2, "2g").misfit(dstream(receivers=3))
    assert misfit is not None and misfit.startswith("executors = 4: ")


@given(
    room=st.builds(Room, st.integers(1, 5), st.integers(1, 16), st.sampled_from(["1g", "3g"])),
    cores=st.integers(1, 20),
    memory=st.sampled_from(["512m", "1g", "4g"]),
    most=st.none() | st.integers(1, 100),
)
def test_it_is_refused_if_and_only_if_it_does_not_fit(
    room: Room, cores: int, memory: str, most: int | None
) -> None:
    stream = structured(
        executor_cores=cores, executor_memory=memory, autoscale=RatioPolicy(max_executors=most)
    )
    fits = room.executors(cores, memory) >= (most or 1)
    assert (room.misfit(stream) is None) == fits
