"""A job that does nothing: the least that a run can be."""

import dagster as dg


@dg.op
def nothing() -> None:
    """The least a run can do."""


@dg.job(executor_def=dg.in_process_executor)
def empty() -> None:
    nothing()
