"""The number of receivers that a stream's next driver starts, and its checkpoint folder. Pure.

generation   counts the changes of the number: each has a checkpoint folder of its own, as a
             graph that comes from a checkpoint has the receivers that it had
a change     needs what was received to be drained: the new folder knows nothing of it
declared     another number than when it was set: that is in force again, by the same rule
"""

from dataclasses import replace

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.receivers import ReceiverCount
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.driver.settings import RECEIVER, RECEIVERS, RECEIVERS_GENERATION


def count_of(stream: Stream) -> ReceiverCount | None:
    """The rule by which the number of receivers follows the input; None: there is none."""
    policy = stream.receiver_policy if isinstance(stream, DStream) else None
    return policy.count if policy is not None else None


def in_force(stream: Stream, record: Record) -> int | None:
    """The number of receivers that the next driver starts; None: the declared number."""
    return record.receivers if isinstance(stream, DStream) else None


def of_driver(driver: Driver) -> int | None:
    """The number of receivers that a newest driver was to start; None: the declared number, or it
    is not known."""
    return None if driver.record is None else driver.record.receivers


def settings_of(stream: Stream, record: Record) -> dict[str, str]:
    """The Spark settings that give a driver its number of receivers, if one is remembered."""
    number = in_force(stream, record)
    if number is None:
        return {}
    return {RECEIVERS: str(number), RECEIVERS_GENERATION: str(record.receivers_generation)}


def changed(record: Record, stream: DStream, receivers: int) -> Record:
    """Set the number of receivers of the next driver in `record`, with a new checkpoint folder."""
    generation = max(record.receivers_generation, record.receivers_generations) + 1
    return replace(
        _limited(record, _number_of(record, stream), receivers),
        receivers=receivers,
        receivers_declared=stream.receivers,
        receivers_generation=generation,
        receivers_generations=generation,
    )


def put_back(record: Record, before: Record) -> Record:
    """Give `record` the number and the checkpoint folder of `before`."""
    return replace(
        record,
        receivers=before.receivers,
        receivers_declared=before.receivers_declared,
        receivers_generation=before.receivers_generation,
    )


def at_start(
    record: Record, stream: Stream, drained: bool | None
) -> tuple[Record, tuple[str, ...]]:
    """Prepare `record` for a start of `stream`; returns it with a line for each change.

    Args:
        drained: whether the driver before processed all that it received; None: not known.
    """
    count = count_of(stream)
    if not isinstance(stream, DStream):
        return record, ()
    if count is None and record.receivers is None:
        return _limited(record, _number_of(record, stream), stream.receivers), ()
    wanted, has = stream.receivers, _number_of(record, stream)
    if count is not None and record.receivers_declared == stream.receivers:
        wanted = count.clamp(has)
    known = replace(record, receivers=wanted, receivers_declared=stream.receivers)
    if wanted == has or not record.epoch:
        return known, ()
    if drained:
        line = f"receivers {has} -> {wanted}, as it is declared now"
        return changed(record, stream, wanted), (line,)
    if not has:  # none were declared: nothing is known of any, and no driver starts with none
        return known, ()
    kept = replace(record, receivers=has, receivers_declared=record.receivers_declared or has)
    line = (
        f"receivers: {wanted} by what is declared now, but the driver before did not end with all "
        f"processed that it had received: {has} as before, in the checkpoint that has it; restart "
        "the stream to have the new number"
    )
    return kept, (line,)


def _limited(record: Record, before: int, after: int) -> Record:
    """Give new receivers a live limit in `record`, the lowest of the old ones, where each old one
    has its own: else nothing would limit them."""
    named = [f"{RECEIVER}{number}" for number in range(before)]
    new = [f"{RECEIVER}{number}" for number in range(before, after)]
    rates, tuning = record.rates or {}, record.tuning
    if not named or not new or not all(name in rates for name in named):
        return record
    lowest = min(named, key=lambda name: min(rates[name].values(), default=0.0))
    more = [name for name in new if name not in rates]
    if tuning is not None and lowest in tuning.rates:
        of_tuning = {**tuning.rates, **dict.fromkeys(more, tuning.rates[lowest])}
        tuning = replace(tuning, rates=of_tuning)
    limited = dict(record.limited)
    if lowest in limited:
        limited |= dict.fromkeys(more, limited[lowest])
    rates = {**rates, **dict.fromkeys(more, rates[lowest])}
    return replace(record, rates=rates, limited=limited, tuning=tuning)


def _number_of(record: Record, stream: DStream) -> int:
    """The number of receivers that the newest driver was to start."""
    if record.receivers is not None:
        return record.receivers
    before = (record.declared or {}).get("receivers", "")  # an older release did not remember it
    return int(before) if before.isdecimal() else stream.receivers
