import threading

from dagster_sparkscale.once import once


class Told:
    def __init__(self, compute):
        self._compute = compute

    @once
    def value(self):
        return self._compute()


def test_it_is_computed_when_it_is_first_asked_for_and_then_kept():
    computed = iter(["first", "second"])
    told = Told(lambda: next(computed))
    assert (told.value, told.value) == ("first", "first")


def test_each_object_has_its_own():
    assert (Told(lambda: 1).value, Told(lambda: 2).value) == (1, 2)


def test_who_asks_for_that_of_one_object_does_not_wait_for_another_ones():
    asked, release = threading.Event(), threading.Event()
    slow = Told(lambda: asked.set() or release.wait(30))
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    try:
        assert asked.wait(30)
        found = []
        other = threading.Thread(target=lambda: found.append(Told(lambda: 1).value))
        other.start()
        other.join(10)
        assert found == [1]
    finally:
        release.set()
        thread.join()
