"""Every field of what is declared, given what it can't be: one sentence that a person can use."""

import math
import re
from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.calendar import Calendar, Window
from dagster_sparkscale.declare.declaration import Declaration, DeclarationError
from dagster_sparkscale.declare.decorator import streaming_asset
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.declare.policies import AutoscalePolicy, RecoveryPolicy
from dagster_sparkscale.declare.realtime import RealTime
from dagster_sparkscale.declare.receivers import ReceiverCount, ReceiverPolicy
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.streams import DStream, StructuredStream

REST: dict[str, Any] = {"name": "clicks", "program": "jobs/a.py", "batch_interval": 10}
ANYTHING = (None, 0, 3, "", "x", "raw_clicks", [], ["a"], [1], {}, {"a": 1}, {1: 2}, {"a"}, b"\xff")
NUMBERS = (True, False, 2.5, -1, math.nan, math.inf, -math.inf, 10**400)
FAMILY = "spark.streaming.dynamicAllocation."
SECRET = "hunter2"

# What of these each field takes; what Dagster judges is left to it, when definitions are built.
TEXT = ("x", "raw_clicks")
ITEMS = ([], ["a"])
TAKEN: dict[str, tuple[Any, ...]] = {
    "kind": (),
    "name": TEXT,
    "program": (),
    "arguments": ITEMS,
    "env": ({},),
    "batch_interval": (3, 2.5),
    "executor_cores": (3,),
    "executor_memory": (),
    "driver_memory": (),
    "spark_conf": ({},),
    "checkpoint_location": (None,),
    "autoscale": (None,),
    "executors": (None, 3),
    "priority": (0, 3, -1),
    "tasks_per_shard": (3, 2.5),
    "recovery": (None, {}),
    "state": (None,),
    "standstill": (),
    "beside_rows": (0, 3),
    "beside_executors": (0, 3),
    "replay": (True, False),
    "report_every": (3, 2.5),
    "description": (None, "", *TEXT),
    "key_prefix": (*ITEMS, {"a"}),
    "deps": (*ITEMS, [1], {"a"}),
    "group": (None, "", *TEXT),
    "owners": (*ITEMS, {"a"}),
    "tags": ({},),
    "kinds": (*ITEMS, {"a"}),
    "metadata": ({}, {"a": 1}),
    "receivers": (0, 3),
    "interval": (3, 2.5),
    "min_executors": (None, 3),
    "max_executors": (None, 3),
    "initial_executors": (None, 3),
    "max_lag": (None, 3, 2.5),
    "ceiling": (None, 3),
    "scale_down_window": (None,),
    "hand_pin": (3, 2.5, 0),
    "min_gain": (None, 1),
    "retry_after": (3, 2.5),
    "scale_up_ratio": (3, 2.5),
    "scale_down_ratio": (),
    "first_delay": (3, 2.5),
    "longest_delay": (),
    "limit": (3,),
    "within": (3, 2.5),
    "key_groups": (3,),
    "partitions": (None, 3),
    "plain_hash": (True, False),
    "maintenance": (None,),
    "timezone": (None,),
    "rows_per_partition": (3,),
    "align_executors": (True, False),
    "backpressure": (None,),
    "retune": (None,),
    "realtime": (None,),
    "slots": (3,),
    "wait": (3, 2.5),
    "calendar": (None,),
    "cron": (),
    "duration": (),
    "bounds": (None,),
    "freeze": (True,),
    "advise": (False,),
    "reason": ("", *TEXT),
    "windows": (),
    "Calendar.timezone": (),
    "StructuredStream.limits": ({},),
    "DStream.limits": (None,),
    "estimator": (),
    "initial_rate": (None,),
    "min_rate": (3, 2.5),
    "max_rate": (None,),
    "target_ratio": (),
    "proportional": (3, 2.5, 0),
    "integral": (3, 2.5, 0),
    "derivative": (3, 2.5, 0),
    "sources": (*ITEMS, {"a"}),
    "schedule": (None,),
    "apply": (True, False),
    "history": (),
    "least_gain": (3, 2.5),
    "verify_after": (3, 2.5),
    "hands_off": (3, 2.5),
    "max_offsets_per_trigger": (None, 3),
    "min_offsets_per_trigger": (None,),
    "max_trigger_delay": (None,),
    "options": ({}, {"a": 1}),
    "backpressure_enabled": (None, True, False),
    "StreamingLimits.initial_rate": (None, 3),
    "StreamingLimits.max_rate": (None, 3),
    "StreamingLimits.min_rate": (None, 3, 2.5),
    "StreamingLimits.proportional": (None, 3, 2.5, 0),
    "StreamingLimits.integral": (None, 3, 2.5, 0),
    "StreamingLimits.derivative": (None, 3, 2.5, 0),
    "receiver_policy": (None,),
    "removal": (),
    "rebalance": (True, False),
    "count": (None,),
    "maximum": (3,),
    "minimum": (3,),
    "capacity": (None, 3, 2.5),
    "ReceiverCount.scale_up_ratio": (),
    "step": (3,),
    "cooldown": (3, 2.5),
    "drain": (3, 2.5),
    "lineage": (None,),
    "url": (),
    "endpoint": TEXT,
    "namespace": TEXT,
    "every": (3, 2.5),
    "api_key_env": (None, *TEXT),
    "api_key_file": (None,),
    "inputs": ([],),
    "outputs": ([],),
}
WINDOW = {"cron": "0 8 * * *", "duration": 60, "freeze": True}
NEEDED: dict[type[Declaration], dict[str, Any]] = {
    StructuredStream: REST,
    DStream: REST,
    State: {"key_groups": 12},
    BackpressurePolicy: {"estimator": "pid"},
    Window: WINDOW,
    Calendar: {"windows": (Window(**WINDOW),)},
    ReceiverCount: {"maximum": 4},
    RealTime: {"slots": 6},
    Lineage: {"url": "http://marquez:5000"},
    RecoveryPolicy: {"limit": 1},  # one that the shortest `within` leaves within reach
}
UNTYPED = {"automation_condition"}


def cases() -> list[Any]:
    found = []
    for model in (
        *(StructuredStream, DStream, State, RatioPolicy, AutoscalePolicy, RecoveryPolicy),
        *(BackpressurePolicy, Retune, SourceLimits, StreamingLimits),
        *(ReceiverPolicy, ReceiverCount, RealTime, Window, Calendar, Lineage),
    ):
        for field in model.model_fields.keys() - UNTYPED:
            found.append(pytest.param(model, field, id=f"{model.__name__}.{field}"))
    return sorted(found, key=lambda each: each.id)


def is_taken(model: type[Declaration], field: str, value: Any) -> bool:
    own = f"{model.__name__}.{field}"
    taken = TAKEN[own] if own in TAKEN else TAKEN[field]
    return any(type(value) is type(right) and value == right for right in taken)


@pytest.mark.parametrize(("model", "field"), cases())
def test_a_wrong_value_is_refused_in_one_sentence(model: type[Declaration], field: str) -> None:
    rest = NEEDED.get(model, {})
    for value in (*ANYTHING, *NUMBERS):
        if is_taken(model, field, value):
            model(**{**rest, field: value})
            continue
        with pytest.raises(DeclarationError) as refused:
            model(**{**rest, field: value})
            pytest.fail(f"{field} takes {value!r}")
        said = str(refused.value)
        assert "\n" not in said, said
        # The subject, the field, its value unless that may be a secret, and what is right.
        assert re.match(rf"{model.__name__}( '.*')?: .*\b{field}\b", said), said
        assert re.search(r" (must be|must have|missing|no such field|begins with|drop it)\b", said)
        if field not in ("env", "spark_conf", "options"):
            assert " = " in said, said
        for raw in ("Input should", "pydantic", "//errors", "[type=", "Traceback", "Value error"):
            assert raw not in said, said
        assert len(said) < 500, said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"executors": "x"}, "executors = 'x': must be a whole number, or None"),
        ({"executors": True}, "executors = True: must be a whole number, or None"),
        ({"executors": 0}, "executors = 0: must be at least 1, or None"),
        ({"executor_cores": 2.5}, "executor_cores = 2.5: must be a whole number"),
        ({"executor_memory": 1}, "executor_memory = 1: must be a JVM memory size such as "),
        ({"batch_interval": math.nan}, "batch_interval = nan: must be a finite number"),
        ({"report_every": "2h"}, "report_every = '2h': must be at most 1 h"),
        ({"deps": "raw"}, "deps = 'raw': must be a list, such as ['raw']"),
        ({"key_prefix": "web"}, "key_prefix = 'web': must be a list, such as ['web']"),
        ({"key_prefix": [""]}, "key_prefix.0 = '': must be text that is not empty"),
        ({"kinds": "web"}, "kinds = 'web': must be a list, such as ['web']"),
        ({"tags": {1: "a"}}, "tags = 1: must have names that are text"),
        ({"tags": {"a": 1}}, "tags.a = 1: must be text"),
        ({"tags": ["a"]}, "tags = ['a']: must be a dict, such as "),
        ({"arguments": {"--a"}}, "arguments = {'--a'}: must be a list, such as "),
        ({"arguments": ["-n", 4]}, "arguments = ['-n', 4]: 4: each must be text"),
        ({"arguments": ["a\0b"]}, "arguments = ['a\\x00b']: 'a\\x00b': each must be text, and"),
        ({"autoscale": True}, "autoscale = True: must be a policy, such as RatioPolicy("),
        ({"recovery": False}, "recovery = False: must be a RecoveryPolicy, or None: never"),
        (
            {"recovery": {"limt": 3}},
            "recovery = {'limt': 3}: RecoveryPolicy: limt: no such field; did you mean 'limit'? ",
        ),
        (
            {"checkpoint_location": " "},
            "checkpoint_location = ' ': must be an absolute path",
        ),
        (
            {"checkpoint_location": "s3://[x"},
            "checkpoint_location = 's3://[x': must be an absolute path or",
        ),
        ({"executer_cores": 2}, "executer_cores: no such field; did you mean 'executor_cores'? "),
        ({"env": {"": "x"}}, "env: '': must be the name of a variable"),
        ({"env": {"A": None}}, "env: A: its value must be text, not NoneType"),
    ],
)
def test_what_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        StructuredStream(**{**REST, **fields})
    assert str(refused.value).startswith(f"StructuredStream 'clicks': {said}")


@pytest.mark.parametrize("returned", [None, "--a", b"--a", {"--a": 1}, {"--a"}, 5])
def test_a_function_that_returns_no_list_of_arguments(returned: Any) -> None:
    stream = StructuredStream(**REST, arguments=lambda: returned)
    with pytest.raises(
        ValueError, match=r"^clicks: arguments: the function returned .*; must be a"
    ):
        stream.program_arguments()


@pytest.mark.parametrize("argument", [None, "a\0b"])
def test_a_function_that_returns_what_is_no_argument(argument: Any) -> None:
    stream = StructuredStream(**REST, arguments=lambda: ["--topic", argument])
    with pytest.raises(ValueError, match=r"^clicks: arguments: .* among them; each must be text"):
        stream.program_arguments()


def clicks() -> None:
    """Decorated below."""


def test_a_decorator_without_its_kind_of_stream_is_refused() -> None:
    for wrong in (clicks, "structured", RatioPolicy):
        with pytest.raises(DeclarationError, match=r"^stream_type = .*: must be StructuredStream"):
            streaming_asset(wrong)  # type: ignore[type-var]


def test_arguments_beside_the_function_that_returns_them_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"^arguments: drop it; the decorated function"):
        streaming_asset(StructuredStream, arguments=["--a"], **REST)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (None, "conf: a NoneType; must be a dict of Spark's settings"),
        (f"{FAMILY}minExecutors=1", "conf: a str; must be a dict of Spark's settings"),
        (
            {f"{FAMILY}minExecuters": "1"},
            f"{FAMILY}minExecuters: not a setting Spark has; did you mean "
            f"'{FAMILY}minExecutors'? it has ",
        ),
    ],
)
def test_what_is_no_configuration_of_spark(conf: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        RatioPolicy.from_spark_conf(conf)
    assert str(refused.value).startswith(said)
    assert RatioPolicy.from_spark_conf({5: "x"}) == RatioPolicy()  # type: ignore[dict-item]


WRONG_SECRETS = (
    SECRET,
    [SECRET],
    {"spark.a": [SECRET]},
    {"spark.a": {"b": SECRET}},
    {"spark.a": f"x\n{SECRET}\0"},
)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        *(("env", each) for each in WRONG_SECRETS),
        *(("spark_conf", each) for each in WRONG_SECRETS),
        ("env", {f"TOKEN={SECRET}": "x"}),
    ],
)
def test_what_may_be_a_secret_is_never_repeated(field: str, given: Any) -> None:
    with pytest.raises(DeclarationError) as refused:
        StructuredStream(**{**REST, field: given})
    assert SECRET not in str(refused.value)


def test_a_value_of_any_size_is_refused_in_a_text_of_bounded_size() -> None:
    for value in ("x" * 10**6, ["x" * 1000] * 1000, {str(n): n for n in range(10**5)}):
        with pytest.raises(DeclarationError) as refused:
            StructuredStream(**{**REST, "executors": value})
        assert len(str(refused.value)) < 5000
