"""What a stream's page shows of its steering. Pure."""

from collections.abc import Mapping

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.markdown import INLINE, fitted

_LINE = INLINE // 8
"""Characters of an entry: of each kind there may be one."""


def sections(situation: Situation) -> Mapping[str, str]:
    """What steers the stream and what its calendar says next, a line each; empty where nothing
    does."""
    ahead = situation.steering.ahead
    lines = (*situation.steering.lines, *((ahead,) if ahead else ()))
    return {"steering": "\n".join(f"- {fitted(line, _LINE)}" for line in lines)}
