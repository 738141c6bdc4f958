"""Numbers that are typed."""

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A finite number in a range: `nan` compares with none, and would pass one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return number
