"""The life of a stream under each fault, by as many seeds as there is time for."""

from tests.faults.kinds import FAULTS
from tests.faults.running import tried

AT_A_TIME = 20


def test_a_stream_lives_through_each_fault(soak):
    seed = soak.chance.randrange(10**6)
    schedules = 0
    for _ in soak.rounds():
        for fault in FAULTS:
            found = tried(fault, range(seed, seed + AT_A_TIME))
            assert found.held, (
                f"make fault NAME={fault} SEED={next(iter(found.broken))}: {found.broken}"
            )
            schedules += found.schedules
        seed += AT_A_TIME
        print(f"{schedules} schedules", flush=True)
