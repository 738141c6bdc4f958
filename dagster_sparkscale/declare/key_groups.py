"""Key groups: how the keys of a stateful query lie in its partitions, and what moves where. Pure.

A key whose hash is h belongs to key group pmod(h, G), for good; Spark puts it into partition
pmod(h, P). Where P divides G both rules are one, pmod(pmod(h, G), P) = pmod(h, P): each partition
has whole key groups, and a change of P splits or merges along them. For any other P Spark has no
key groups, only its plain hash: every key may move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import shown

MOST_KEY_GROUPS = 32768
"""The most key groups, as in Apache Flink."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What a change of the number of partitions does to keys; as text, in words."""

    before: int
    after: int
    key_groups: int
    share: float
    """The share of keys, 0 to 1, that get another partition, if their hashes are spread evenly. All
    rows are written anew all the same."""

    @property
    def whole(self) -> bool:
        """Whether key groups stay whole: both numbers divide that of the key groups."""
        return self.key_groups % self.before == 0 == self.key_groups % self.after

    @property
    def splits(self) -> int | None:
        """Into how many each partition splits, and nothing else; None: it does not."""
        apart = self.whole and self.after > self.before and self.after % self.before == 0
        return self.after // self.before if apart else None

    @property
    def merges(self) -> int | None:
        """How many partitions make one, and nothing else; None: they don't."""
        together = self.whole and self.before > self.after and self.before % self.after == 0
        return self.before // self.after if together else None

    def __str__(self) -> str:
        if self.before == self.after:
            return "nothing moves"
        moved = f"{self.share:.0%} of the key groups move"
        if self.splits:
            return f"each partition splits into {self.splits}; {moved}"
        if self.merges:
            return f"{self.merges} partitions at a time merge into one; {moved}"
        if self.whole:
            return f"key groups stay whole and are dealt out anew; {moved}"
        odd = self.after if self.key_groups % self.after else self.before
        return (
            f"every key may move, as by Spark's plain hash, for {odd} does not divide "
            f"{self.key_groups} key groups; {self.share:.0%} of the keys do"
        )


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The key groups of a query: how many, which is fixed once it has run.

    Raises:
        DeclarationError: the number is out of bounds.
    """

    count: int
    """How many key groups there are."""

    def __post_init__(self) -> None:
        count = self.count
        if not _is_whole(count) or not 1 <= count <= MOST_KEY_GROUPS:
            raise DeclarationError(
                f"KeyGroups: count = {shown(count)}: must be a whole number from 1 to "
                f"{MOST_KEY_GROUPS}"
            )

    def counts(self, plain_hash: bool = False) -> tuple[int, ...]:
        """The numbers of partitions that there may be, ascending: those that divide the number of
        key groups; with `plain_hash` all that are no larger."""
        every = range(1, self.count + 1)
        return tuple(n for n in every if plain_hash or self.count % n == 0)

    def why_not(self, partitions: int, plain_hash: bool = False) -> str | None:
        """Why there can't be so many partitions, and what would be right; None: there can."""
        if not _is_whole(partitions) or partitions < 1:
            return "must be a whole number of at least 1"
        if partitions > self.count:
            return f"must be at most {self.count}, as there are {self.count} key groups"
        if plain_hash or self.count % partitions == 0:
            return None
        below, above = self._around(partitions)
        return (
            f"must divide {self.count}, the number of key groups, as {below} and {above} do; "
            "State(plain_hash=True) allows any other, for which every key may move"
        )

    def moves(self, before: int, after: int) -> Moves:
        """What a change from `before` to `after` partitions moves. A query that was taken over may
        have more partitions than there are key groups.

        Raises:
            ValueError: either is no number of partitions.
        """
        for name, partitions in (("before", before), ("after", after)):
            if not _is_whole(partitions) or partitions < 1:
                raise ValueError(f"{name} = {shown(partitions)}: must be at least 1")
        # Of the hashes of one cycle, as many as the smaller number has partitions stay.
        staying = min(before, after) / lcm(before, after)
        return Moves(before, after, self.count, 1 - staying)

    def covering(self, tasks: int) -> int:
        """The number of partitions that gives `tasks` tasks at a time something to do: the smallest
        that is as large, if there is one. Where that is more than twice too many, as of 7 or of 122
        key groups, the nearer of those around it.

        Raises:
            ValueError: `tasks` is below 1.
        """
        if tasks < 1:
            raise ValueError(f"tasks = {tasks}: must be at least 1")
        if tasks >= self.count:
            return self.count
        below, above = self._around(tasks)
        return below if above > 2 * tasks and tasks * tasks < below * above else above

    def _around(self, number: int) -> tuple[int, int]:
        """The largest divisor that is not above, and the smallest that is not below."""
        counts = self.counts()
        return max(n for n in counts if n <= number), min(n for n in counts if n >= number)


def skew(rows: Sequence[float] | None) -> float | None:
    """The largest over the mean: 1 is even. None: they are not known, or there are no rows."""
    total = sum(rows or ())
    return max(rows) * len(rows) / total if rows and total else None


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
