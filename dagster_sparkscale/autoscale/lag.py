"""What a lag above a policy's `max_lag` means for a decision. Pure.

R says whether batches fit into their interval; not whether they keep up with the source. A source
that reads a bounded piece for each batch may have a low R and fall behind all the same.
"""

from dagster_sparkscale.observe.evaluation import Evaluation

NOTHING_TO_DO = (
    "no executor has a task: it is the driver, or the source, that takes so long, and more "
    "executors would be idle too"
)
"""The reason for holding while a batch is overdue."""
OVERDUE_IN_VAIN = f"the batch in progress is overdue, and {NOTHING_TO_DO}"


def nothing_to_do(seen: Evaluation) -> bool:
    """Whether a batch is overdue that no executor works on, at least when the agent looked."""
    return seen.overdue is not None and seen.active_tasks == 0


def too_far_behind(max_lag: float | None, seen: Evaluation) -> str | None:
    """Say that the stream is too far behind its source; None: it is not, or its lag is not
    known."""
    if max_lag is None or seen.lag is None or seen.lag <= max_lag:
        return None
    whose = f" of query {seen.lag_query!r}" if seen.lag_query else ""
    return f"lag {seen.lag:.1f} s{whose} is above {max_lag:g} s"


def no_more_needed(
    max_lag: float,
    scale_down_ratio: float,
    seen: Evaluation,
    bounded: str = "a batch is bounded by what its source may read: raise that",
) -> str | None:
    """Why a stream that is too far behind gets no more executors, in words; None: it gets some.

    Only for a stream whose batches fit into their interval: one that is overloaded by R as well
    needs more whatever its lag does, and so does one whose batch is overdue.

    Args:
        bounded: why batches are no larger, and what to do about it, in words.
    """
    assert seen.lag is not None
    if nothing_to_do(seen):
        return OVERDUE_IN_VAIN
    if seen.overdue is not None:
        return None
    if seen.catching_up is not None and seen.catching_up > 0:
        left = (seen.lag - max_lag) / seen.catching_up
        if left <= seen.window:
            return (
                f"it falls by {seen.catching_up:.2f} s a second and will be below that in "
                f"{left:.0f} s"
            )
    if seen.ratio is not None and seen.ratio <= scale_down_ratio and seen.lag_paced:
        return (
            f"R {seen.ratio:.2f} is at or below {scale_down_ratio:g}: batches wait for "
            f"their interval most of the time, and more executors would only wait longer; {bounded}"
        )
    return None
