"""What is printed of mutmut's results."""

import pytest

from dev.survivors import Survivor, Verdict, judge, missed, report

SOURCE = '''\
def most(values, least=0):
    """The largest."""
    return max(
        values,
        default=least,
    )


class Queue:
    def put(self, item):
        if item is not None:
            self.items.append(item)
'''

# As mutmut 3.8 writes it: each function as it was, and once for every change of it.
CHANGED = '''\
from mutmut.mutation.trampoline import wrap_in_trampoline as _mutmut_mutated, MutantDict
mutants_x_most__mutmut: MutantDict = {}  # type: ignore
@_mutmut_mutated(mutants_x_most__mutmut)
def most(values, least=0):
    """The largest."""
    return max(
        values,
        default=least,
    )
def x_most__mutmut_orig(values, least=0):
    """The largest."""
    return max(
        values,
        default=least,
    )
def x_most__mutmut_1(values, least=1):
    """The largest."""
    return max(
        values,
        default=least,
    )
def x_most__mutmut_2(values, least=0):
    """The largest."""
    return max(
        values,
        )


class Queue:
    def put(self, item):
        if item is not None:
            self.items.append(item)
    def xǁQueueǁput__mutmut_orig(self, item):
        if item is not None:
            self.items.append(item)
    def xǁQueueǁput__mutmut_1(self, item):
        if item is None:
            self.items.append(item)
'''
DEFAULT, DROPPED, METHOD = (
    f"package.module.{name}"
    for name in ("x_most__mutmut_1", "x_most__mutmut_2", "xǁQueueǁput__mutmut_1")
)
KILLED, SURVIVED, NO_TEST, TOO_LONG, INTERRUPTED = 1, 0, 33, -24, 2


def judged(**exit_codes: int | None) -> Verdict:
    names = {"default": DEFAULT, "dropped": DROPPED, "method": METHOD}
    return judge("m.py", SOURCE, CHANGED, {names[name]: code for name, code in exit_codes.items()})


def test_a_survivor_is_named_by_the_line_of_the_module_and_what_it_changes() -> None:
    verdict = judged(default=SURVIVED, dropped=SURVIVED, method=SURVIVED)
    assert verdict.mutants == 3
    assert [str(survivor) for survivor in verdict.survivors] == [
        "m.py:1: def most(values, least=0):  ->  def most(values, least=1):",
        "m.py:5: default=least,  ->  (nothing)",
        "m.py:11: if item is not None:  ->  if item is None:",
    ]


def test_what_no_test_comes_near_has_survived_and_what_never_ends_has_not() -> None:
    verdict = judged(default=KILLED, dropped=NO_TEST, method=TOO_LONG)
    assert [survivor.line for survivor in verdict.survivors] == [5]


@pytest.mark.parametrize("code", [None, INTERRUPTED])
def test_a_run_that_was_cut_short_is_no_result(code: int | None) -> None:
    with pytest.raises(ValueError, match=r"m\.py: 1 changes were not tried"):
        judged(default=KILLED, method=code)


LEFT = [
    Verdict("a.py", 30, ()),
    Verdict("b.py", 10, (Survivor("b.py", 7, "a < b", "a <= b"),)),
]


def test_the_report_of_a_group_ends_with_its_share_against_its_goal() -> None:
    lines = report("pure", 0.03, LEFT).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["pure", "module", "mutants", "killed", "survived", "share"],
        ["a.py", "30", "30", "0", "0.0%"],
        ["b.py", "10", "9", "1", "10.0%"],
    ]
    assert lines[4] == "b.py:7: a < b  ->  a <= b"
    assert lines[-1] == "pure modules: 1 of 40 survived: 2.5%; the goal is at most 3%"


@pytest.mark.parametrize(("goal", "is_missed"), [(0.02, True), (0.025, False), (0.03, False)])
def test_a_goal_is_missed_by_the_share_of_all_modules_of_the_group(
    goal: float, is_missed: bool
) -> None:
    assert missed(goal, LEFT) == is_missed


def test_a_module_in_which_nothing_can_be_changed_has_no_share_and_misses_nothing() -> None:
    nothing = [Verdict("a.py", 0, ())]
    assert "0.0%" not in report("pure", 0.03, nothing)
    assert not missed(0.03, nothing)
