"""How many executors fit on what workers have left."""

import pytest

from dagster_sparkscale.clusters.capacity import Capacity, Free


class TestRoom:
    """Cores that are free on several workers are no room for one executor."""

    CAPACITY = Capacity(8, 2, 2, free=(Free(1, 3072.0), Free(1, 512.0)))

    @pytest.mark.parametrize(
        ("cores", "memory", "fit"), [(1, "512m", 2), (1, "1g", 1), (1, "4g", 0), (2, "512m", 0)]
    )
    def test_an_executor_is_on_one_worker(self, cores: int, memory: str, fit: int) -> None:
        assert self.CAPACITY.executors(cores, memory) == fit

    def test_it_says_what_is_lacking(self) -> None:
        assert self.CAPACITY.room_for(2, "1g") == (
            "no worker has 2 cores and 1g of memory free for another executor: the one with most "
            "has 1 core and 3072 MiB free (of the cluster's 8 cores 2 are free, on 2 worker(s))"
        )
        assert self.CAPACITY.room_for(1, "1g") == (
            "there is room for 1 more executor of 1 core and 1g of memory"
        )
        yarn = Capacity(8, 2, 2, free=(Free(None, 3072.0), Free(None, 512.0)))
        assert yarn.executors(4, "1g") == 3
        assert "the one with most has 3072 MiB free" in yarn.room_for(4, "4g")
        assert Capacity(0, 0, 0).room_for(1, "1g") == (
            "the cluster has no worker that takes executors"
        )
