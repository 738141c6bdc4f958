import threading
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.quota import (
    BYTES_PER_SECOND,
    READS_PER_SECOND,
    Quota,
    Unlimited,
)

MOST = 10 * 1024 * 1024


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 1 + MOST / BYTES_PER_SECOND
        self.now += seconds


steps = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.floats(0, 2) | st.just(0.0),
        st.integers(0, MOST) | st.sampled_from([0, 1, MOST]),
    ),
    max_size=60,
)


@given(steps)
def test_no_shard_is_read_more_than_the_service_allows(steps):
    clock = Clock()
    limiter = Quota(clock, clock.sleep)
    reads = {"a": [], "b": []}
    for shard, pause, size in steps:
        clock.now += pause
        limiter.before_read(shard)
        reads[shard].append((clock.now, size))
        limiter.after_read(shard, size)
    for of in reads.values():
        times = [at for at, _ in of]
        for first, later in zip(times, times[READS_PER_SECOND:], strict=False):
            assert later >= first + 1.0
        for begin in range(len(of)):
            taken = 0
            for at, size in of[begin:]:
                # What has been taken before this answer; a second's worth may be taken at once.
                seconds = at - times[begin] + 1.0
                assert taken <= BYTES_PER_SECOND * seconds + 1
                taken += size


def test_shards_do_not_wait_for_each_other():
    clock = Clock()
    limiter = Quota(clock, clock.sleep)
    limiter.before_read("a")
    limiter.after_read("a", MOST)
    limiter.before_read("b")
    assert clock.now == 1000.0


def test_a_large_answer_is_made_up_for():
    clock = Clock()
    limiter = Quota(clock, clock.sleep)
    limiter.before_read("a")
    limiter.after_read("a", MOST)
    limiter.before_read("a")
    # Five seconds' worth, of which one may be taken at once.
    assert clock.now == 1004.0


def test_what_was_not_used_is_not_saved_up():
    clock = Clock()
    limiter = Quota(clock, clock.sleep)
    limiter.after_read("a", 0)
    clock.now += 3600
    for _ in range(2):
        limiter.before_read("a")
        limiter.after_read("a", BYTES_PER_SECOND)
    limiter.before_read("a")
    assert clock.now == 1000.0 + 3600 + 1.0


def test_threads_share_what_is_allowed():
    clock = Clock()
    lock = threading.Lock()
    times = []

    def sleep(seconds: float) -> None:
        with lock:
            clock.now += seconds

    limiter = Quota(clock, sleep)

    def read() -> None:
        for _ in range(20):
            limiter.before_read("a")
            with lock:
                times.append(clock.now)
            limiter.after_read("a", 1000)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    # 80 reads, of which the first five are free.
    assert len(times) == 80
    assert max(times) >= 1000.0 + 15
    assert all(one <= other for one, other in pairwise(sorted(times)))


def test_a_service_without_limits_is_not_waited_for():
    limiter = Unlimited(lambda: 0.0, lambda _: 1 / 0)
    for _ in range(100):
        limiter.before_read("a")
        limiter.after_read("a", MOST)


def test_the_sixth_read_comes_as_soon_as_the_first_is_a_second_ago():
    clock = Clock()
    limiter = Quota(clock, clock.sleep)
    for _ in range(READS_PER_SECOND):
        limiter.before_read("a")
        clock.now += 0.125
    limiter.before_read("a")
    assert clock.now == 1001.0
