"""Values of fields that an environment variable may give."""

from typing import Any, TypeGuard

import dagster as dg


def is_text(value: Any) -> TypeGuard[str]:
    """Whether `value` is text that is known already: that of a `dg.EnvVar` is not, before a run
    begins."""
    return isinstance(value, str) and not isinstance(value, dg.EnvVar)
