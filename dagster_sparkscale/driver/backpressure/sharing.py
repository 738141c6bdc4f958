"""Shares what a query can take among its sources. Pure.

Where all want more than there is, they come to have the same, a step nearer with each batch. One
that does not take what it may gives the rest to those that would.
"""

from collections.abc import Mapping
from dataclasses import dataclass

GROWTH = 1.5
"""What a source may take that took less than it might: so much of what it took, if others want the
rest. It says at the next batch whether it wants more."""
NOTHING = 1e-9
"""Records per second."""
EQUALLY = 0.2
"""Share that is given out equally, whatever the sources have taken. The rest goes by that: one that
takes much has much."""


@dataclass(frozen=True)
class Want:
    """What one source took of late."""

    taken: float
    """Records per second."""
    more: bool
    """Whether it took all that it might, and so may have more."""


def share(
    total: float, wants: Mapping[str, Want], least: float, most: float | None = None
) -> dict[str, float]:
    """What each source may take, in records per second; `total` together, unless bounds forbid.

    Args:
        least, most: bounds for each of them, records per second; None: none above.
    """
    ceiling = {name: most for name in wants if most is not None}
    if any(want.more for want in wants.values()):
        for name, want in wants.items():
            if not want.more:
                enough = max(least, GROWTH * want.taken)
                ceiling[name] = min(enough, ceiling.get(name, enough))
    mean = sum(want.taken for want in wants.values()) / len(wants) if wants else 0.0
    # Of sources that have taken (next to) nothing, all weigh the same.
    weights = {
        name: EQUALLY * mean + (1 - EQUALLY) * want.taken if mean > NOTHING else 1.0
        for name, want in wants.items()
    }
    return _filled(total, weights, least, ceiling)


def _filled(
    total: float, weights: Mapping[str, float], least: float, ceiling: Mapping[str, float]
) -> dict[str, float]:
    """`total` by weight, where nobody has less than `least` or more than its ceiling."""
    shares: dict[str, float] = {}
    open_ = dict(weights)
    left = total
    while open_:
        whole = sum(open_.values())
        fair = {name: left * weight / whole for name, weight in open_.items()}
        low = {name for name in open_ if fair[name] < least}
        high = {name for name in open_ if fair[name] > ceiling.get(name, fair[name])}
        # Whichever side is further out is settled first: what is left changes the other's share.
        missing = sum(least - fair[name] for name in low)
        spare = sum(fair[name] - ceiling[name] for name in high)
        settled = low if missing > spare else high
        if not settled:
            return {**shares, **fair}
        for name in settled:
            shares[name] = least if name in low else ceiling[name]
            left -= shares[name]
            del open_[name]
        left = max(left, 0.0)
    return shares
