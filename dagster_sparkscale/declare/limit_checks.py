"""What of a stream's limits contradicts each other, or has no effect, in words. Pure."""

from collections.abc import Mapping

from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.limits import ENABLED, INITIAL_RATE, StreamingLimits
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.driver.wire import RECEIVER


def check_rates(owner: str, rates: Mapping[str, float | None], batch_interval: float) -> None:
    """Refuse rates by which a batch gets no record at all.

    Args:
        owner: the field that they are of.
        rates: records per second, by field; None: not given.
        batch_interval: seconds.

    Raises:
        ValueError: there is one.
    """
    for field, rate in rates.items():
        if rate is not None and rate * batch_interval < 1:
            raise ValueError(
                f"{owner}.{field} = {rate:g}: must be at least {1 / batch_interval:g}, which is "
                f"one record in a batch interval of {batch_interval:g} s"
            )


def check_policy(
    policy: BackpressurePolicy, spark_conf: Mapping[str, str], receivers: int | None
) -> None:
    """Refuse Spark's own estimator beside ours, and sources that can't be.

    Args:
        receivers: of a DStream; None: it is none.

    Raises:
        ValueError: there is one of these.
    """
    for name in policy.sources:
        id = name.removeprefix(RECEIVER)
        if id != name and not receivers:
            raise ValueError(f"backpressure.sources: drop {name!r}; the stream has no receivers")
        if id != name and not (id.isascii() and id.isdecimal()):
            raise ValueError(
                f"backpressure.sources: {name!r}: must be a receiver by its stream id, as "
                "'receiver-0' is"
            )
    if is_on(spark_conf):
        raise ValueError(
            f"spark_conf: drop {ENABLED} = true, or backpressure; two estimators would fight over "
            'the same limits (backpressure=BackpressurePolicy(estimator="pid") is Spark\'s own)'
        )
    if INITIAL_RATE in spark_conf:
        raise ValueError(f"spark_conf: drop {INITIAL_RATE}; it is set by backpressure.initial_rate")


def check_beside_autoscale(
    policy: BackpressurePolicy, autoscale: AutoscalePolicy, least: int
) -> None:
    """Refuse a share of the batch interval at which the autoscaler takes back what it has given.

    At the limit R is `target_ratio`, and one executor more makes that `least / (least + 1)` of it.
    At or below `scale_down_ratio` it is removed, the limit holds again, and it is added again.
    Where the thresholds do that without any limit, no limit makes it worse.

    Args:
        autoscale: only a `RatioPolicy`, or what has its thresholds, is looked at.
        least: the minimum of executors.

    Raises:
        ValueError: it is one.
    """
    scale_up = getattr(autoscale, "scale_up_ratio", None)
    scale_down = getattr(autoscale, "scale_down_ratio", None)
    if policy.estimator != "work" or scale_up is None or scale_down is None:
        return
    target, left = policy.target_ratio, least / (least + 1)
    if target * left <= scale_down < scale_up * left:
        raise ValueError(
            f"backpressure.target_ratio = {target:g}: must be above {scale_down / left:g}; with "
            f"one executor more R would be no higher than autoscale.scale_down_ratio = "
            f"{scale_down:g}, and that executor removed again"
        )


def check_streaming(
    limits: StreamingLimits,
    policy: BackpressurePolicy | None,
    spark_conf: Mapping[str, str],
    receivers: int,
) -> None:
    """Refuse limits of a DStream that contradict each other, or have no effect.

    Raises:
        ValueError: there are some.
    """
    for field, setting in limits.spark_settings.items():
        if getattr(limits, field) is not None and setting in spark_conf:
            raise ValueError(f"spark_conf: drop {setting}, or limits.{field}, which sets it")
    if limits.max_rate is not None and not receivers:
        raise ValueError(
            f"limits.max_rate = {limits.max_rate}: drop it, or say how many receivers there are; "
            "it is of receivers"
        )
    if policy is not None:
        _check_beside(limits, policy)
        return
    if limits.backpressure_enabled or (limits.backpressure_enabled is None and is_on(spark_conf)):
        return
    for field in ("min_rate", "proportional", "integral", "derivative"):
        value = getattr(limits, field)
        if value is not None:
            raise ValueError(
                f"limits.{field} = {value:g}: drop it, or give limits.backpressure_enabled=True; "
                "it is of Spark's estimator"
            )
    if limits.initial_rate is not None and not receivers:
        raise ValueError(
            f"limits.initial_rate = {limits.initial_rate}: drop it, or give "
            "limits.backpressure_enabled=True; without that it is heeded by receivers alone"
        )


def _check_beside(limits: StreamingLimits, policy: BackpressurePolicy) -> None:
    if limits.backpressure_enabled:
        raise ValueError(
            "limits.backpressure_enabled = True: drop it, or backpressure; two estimators would "
            "fight over the same limits"
        )
    for field in ("initial_rate", "min_rate", "proportional", "integral", "derivative"):
        value = getattr(limits, field)
        if value is not None:
            raise ValueError(
                f"limits.{field} = {value:g}: drop it; with a BackpressurePolicy it is "
                f"backpressure.{field}"
            )
    most = limits.max_rate
    for field in ("min_rate", "initial_rate", "max_rate"):
        value = getattr(policy, field)
        if most is not None and value is not None and value > most:
            raise ValueError(
                f"backpressure.{field} = {value:g}: must be at most limits.max_rate = {most}, "
                "which no receiver exceeds"
            )


def is_on(spark_conf: Mapping[str, str]) -> bool:
    """Whether these settings turn Spark's own estimator on."""
    return spark_conf.get(ENABLED, "").strip().lower() == "true"
