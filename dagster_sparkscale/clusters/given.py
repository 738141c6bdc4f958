"""What is given as a field of a cluster manager."""

from typing import Any, TypeGuard

import dagster as dg


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is text that can be judged already. What a `dg.EnvVar` stands for, which is text
    too, is not known before a run begins."""
    return isinstance(value, str) and not isinstance(value, dg.EnvVar)
