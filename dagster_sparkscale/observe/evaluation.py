"""The numbers that a stream is assessed by: an evaluation of one window. Pure."""

from dataclasses import dataclass

PERSON = "person"
"""The origin of a limit that a person has set."""


@dataclass(frozen=True, slots=True)
class Load:
    """How loaded one active query is."""

    query: str
    ratio: float
    """R: mean processing time of its completed batches / batch interval."""
    planning: float | None = None
    """The part of `ratio` that the driver spent by itself, such as on finding offsets and planning;
    None where Spark does not report every batch."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one stream did in one window. None means not measured, never zero."""

    window: float
    """Seconds that this is about: the policy's interval, or longer if the evaluation before was
    longer ago."""
    uptime: float | None = None
    """Seconds since the driver started."""
    ratio: float | None = None
    """R of the worst query: mean processing time of its completed batches / batch interval."""
    query: str | None = None
    """The query `ratio` was measured on."""
    loads: tuple[Load, ...] = ()
    """R of each active query that has one, the worst first."""
    unpaced: tuple[str, ...] = ()
    """The active queries for which R means nothing: by their trigger, a batch lasts as long as it
    is told to. They have no R, and are never overdue."""
    overdue: float | None = None
    """Age of the batch in progress / batch interval, where that is above 1; of the worst query."""
    stalled: float | None = None
    """`overdue` of the worst query that completed no batch in the window: it has no R, and the R of
    the others says nothing about it. Its first batch counts once it took `WARM_UP` longer."""
    overdue_for: float | None = None
    """Age of the batch that `overdue` is about, seconds."""
    stalled_for: float | None = None
    """Age of the batch that `stalled` is about, seconds."""
    batch_for: float | None = None
    """Age of the batch in progress, seconds; of several queries the longest. None: there is none,
    or that is not known, or it means nothing, as by an `unpaced` trigger."""
    active_tasks: int | None = None
    """Tasks that executors are working on, receivers not counted."""
    warming: str | None = None
    """A query of which nothing but its first batch since the start is known yet, going on or done.
    That one loads and compiles code: it has no part in R."""
    silent: float | None = None
    """Seconds since anything was heard of the query that has been silent longest, where these are
    more than `SILENT_AFTER` windows and batch intervals. One without data is heard of, too."""
    silent_query: str | None = None
    """The query `silent` was measured on."""
    completed: int = 0
    """Batches that active queries completed without a failed output operation, as far as the agent
    keeps them."""
    failed: int = 0
    """Batches of the window that failed, all queries together."""
    processing_ms: float | None = None
    """Mean of the worst query."""
    scheduling_ms: float | None = None
    """Mean of the worst query."""
    input_rate: float | None = None
    """Records per second of the window that entered completed batches, all queries together; of
    the part of it since when the agent keeps all batches, where these are too many."""
    gathered_rate: float | None = None
    """Records per second of the intervals in which completed batches gathered them. For DStreams,
    whose batches have one interval's input each, that is what their receivers take, also while
    batches take longer than they have: then fewer complete in the window, and `input_rate` is
    what is processed, not what comes."""
    processed_rate: float | None = None
    """Records per second of processing time, all queries together."""
    peak_rate: float | None = None
    """Records per second of the fullest batch: its records / the seconds in which they came; all
    queries together, each by its fullest. A load that comes and goes within the window has it far
    above `input_rate`."""
    delay: float | None = None
    """Seconds from when the oldest record of a batch came until that batch was done, of the latest
    one. It was late above three batch intervals: the one in which its records came, and two."""
    backlog_records: int | None = None
    """Records that the sources have and no batch has taken yet, all queries together."""
    files_waiting: int | None = None
    """Files that file sources have found and no batch has taken yet, at least."""
    pending_batches: int | None = None
    """DStreams: batches that are due and not completed."""
    lag: float | None = None
    """Seconds that the query furthest behind is behind the tip of its source, where one tells."""
    lag_query: str | None = None
    """The query `lag` was measured on."""
    lag_unknown: str | None = None
    """Why it is not known how far a query is behind that reads from a source which could tell, in
    words; None: there is no such query."""
    lag_at_least: float | None = None
    """Seconds that a query is behind at least of which it is not known how far it is."""
    catching_up: float | None = None
    """Seconds of `lag` lost per second, over the batches of that query; below 0: it grows."""
    lag_paced: bool = False
    """Whether that query waits for its next interval once it has done a batch."""
    shards: int | None = None
    """Shards that all active queries together are reading at present; None as soon as one of them
    does not tell."""
    lost: int | None = None
    """How many times data was gone before it could be read, in all; ended queries included."""
    registered: int | None = None
    """Executors that have registered with the driver, those that are leaving included."""
    removing: int = 0
    """Registered executors that are leaving. They get no new tasks."""
    requested: int | None = None
    """Executors asked of the cluster manager."""
    receivers: int | None = None
    """Receivers of a DStreams application that run; None: not known, or it has none."""
    batch_interval: float | None = None
    """Seconds; as the running program has it, else as declared."""
    limit: float | None = None
    """Records per second that the active queries may take together, by the limits in force when
    the last batch of each was planned; None as soon as one of them has no limit."""
    throttled: str | None = None
    """An active query whose input stood at its limit for the whole window: each of its batches had
    work and a limit, and took at least 95 % of it, all together. Then R says how large the limit
    is, and nothing of how much more there is. Of several, the one with the highest R."""
    throttled_by: str | None = None
    """The origin of these limits, as `Limit.by`, where all sources have the same; `source`: the
    options of the sources bound it, which take less than their limits let them; `tuned`: a retuning
    set the limit that bounds it. None: not known, or of several origins."""
    throttled_who: str = ""
    """The person or run that set that limit, since when and until when; empty: it is declared,
    estimated, or not known."""
    limit_by: str | None = None
    """`person`: a source stands under a live limit that a person has set. None: none does, or that
    is not known."""
    throttled_limit: float | None = None
    """Records per second that it may take."""
    throttled_lag: float | None = None
    """Seconds that it is behind the tip of its source, where that tells."""
    silence: str | None = None
    """Why `ratio` is None, in words."""

    @property
    def staying(self) -> int | None:
        """Executors that are registered and have not been told to leave."""
        return None if self.registered is None else max(0, self.registered - self.removing)
