"""What a change of state partitions would be, query by query, and how it is told. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.state.way import Way


@dataclass(frozen=True)
class OfQuery:
    """What would become of one query."""

    query: str
    before: int
    after: int
    why: str
    """Why that number, for people."""
    moves: str
    """What moves, for people."""
    rows: int | None = None
    bytes: int | None = None
    operators: tuple[str, ...] = ()
    """Spark's names of its stateful operators."""
    seconds: float | None = None
    """Seconds that the change may take; None: its rows are not known."""
    rows_then: int | None = None
    """Rows when its state was last changed; None: not known."""

    @property
    def rows_in_words(self) -> str:
        """How many rows its state has, as far as that is known."""
        if self.rows is not None:
            return f"{self.rows:,} rows"
        if self.rows_then is not None:
            return f"rows not told yet, {self.rows_then:,} when it was last changed"
        return "unknown rows"


@dataclass(frozen=True)
class PartitionChange:
    """What is to be done."""

    plan: StatePlan
    queries: tuple[OfQuery, ...]
    """The queries that would be changed."""
    left: tuple[OfQuery, ...] = ()
    """Queries that need another number, each by a run of its own."""
    barred: tuple[str, ...] = ()
    """Why each of the other queries is left as it is, where it can't be changed now, or at all."""
    reverted: str | None = None
    """What changes it back, for people; None: it is what is declared."""
    longest: float = 0.0
    """Seconds that the longest of the stream's last batches took."""
    way: Way = field(default_factory=lambda: Way(False))

    @property
    def seconds(self) -> float | None:
        """All of it together: one query is changed after the other."""
        known = [each.seconds for each in self.queries]
        return None if None in known else sum(each for each in known if each is not None)

    @property
    def lines(self) -> tuple[str, ...]:
        """Describe the plan: a line for each query, the cost, and what is left for later."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        for each in self.queries:
            yield (
                f"query {each.query!r}: {each.before} -> {each.after} partitions, as {each.why}; "
                f"{each.rows_in_words}; {each.moves}"
            )
        yield self.way.line
        if self.seconds is None:
            yield "how long it takes can't be estimated: the rows of the state are not known"
        elif self.way.in_place:
            # One query is changed after the other, and the others run meanwhile.
            most = max(each.seconds or 0.0 for each in self.queries)
            whose = "the stream" if len(self.queries) == 1 else "each of these queries"
            yield (
                f"{whose} stands still for about {most:.0f} s: a rough estimate, for it depends on "
                "the cluster and on the rows"
            )
        else:
            yield (
                f"the stream stands still for about {self.seconds:.0f} s, and for its restart: a "
                "rough estimate, for it depends on the cluster and on the rows"
            )
        if self.reverted is not None:
            yield self.reverted
        for why in self.barred:
            yield f"left as it is: {why}"
        for each in self.left:
            yield (
                f"query {each.query!r} is left at {each.before} partitions for now, and should "
                f"have {each.after}: run this again for it"
            )
