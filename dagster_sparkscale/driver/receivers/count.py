"""How many receivers a DStreams program is to start, and the checkpoint of just that many.

    from dagster_sparkscale import receiver_checkpoint, receiver_count

    def create():
        streaming = StreamingContext(SparkContext(), 10)
        streaming.checkpoint(receiver_checkpoint("hdfs:///checkpoints/clicks"))
        streams = [streaming.socketTextStream(...) for _ in range(receiver_count(2))]
        ...

    StreamingContext.getOrCreate(receiver_checkpoint("hdfs:///checkpoints/clicks"), create)

Both are plain Spark settings, so a program may also read them by itself.
"""

from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.begin.stream_options import settings_of
from dagster_sparkscale.driver.settings import RECEIVERS, RECEIVERS_GENERATION


class BadReceiverSetting(ValueError):
    """A setting that is no number of receivers; the text names it, its value and what is right."""


def receiver_count(default: int, spark: Any = None) -> int:
    """How many receivers to start.

    Args:
        default: where nothing is set, as where the program is run by hand.
        spark: a SparkSession or SparkContext. None: the active one.

    Raises:
        BadReceiverSetting: `default`, or what is set, is not a whole number of at least 1.
    """
    if type(default) is not int or default < 1:
        raise BadReceiverSetting(
            f"receiver_count({default!r}): must be a whole number of at least 1"
        )
    return _number(settings_of(spark), RECEIVERS, default, least=1)


def receiver_checkpoint(base: str, spark: Any = None) -> str:
    """The checkpoint folder for this number of receivers.

    A graph that comes from a checkpoint has the receivers that it was made with, so each change of
    their number begins a folder of its own: `base` itself, then `base/receivers-1` and so on.

    Args:
        base: the folder that the program names, which serves the first number.
        spark: a SparkSession or SparkContext. None: the active one.

    Raises:
        BadReceiverSetting: what is set is not a whole number of at least 0.
        ValueError: `base` is empty.
    """
    if not base:
        raise ValueError("receiver_checkpoint(''): must be the path or URL of a folder")
    generation = _number(settings_of(spark), RECEIVERS_GENERATION, 0, least=0)
    return base if generation == 0 else f"{base.rstrip('/')}/receivers-{generation}"


def _number(settings: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = settings.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if number < least:
        raise BadReceiverSetting(f"{name} = {text!r}: must be a whole number of at least {least}")
    return number
