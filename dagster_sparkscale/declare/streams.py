"""What a user declares: a long-running Spark streaming application and how it may scale."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.checkpoints import normalized
from dagster_sparkscale.declare.declaration import Declaration, Seconds
from dagster_sparkscale.declare.policies import AutoscalePolicy, RecoveryPolicy

DEFAULT_WINDOW = 60.0
"""Seconds looked at where a stream has no policy to say."""

LONGEST_REPORT = 3600.0
"""Seconds; until they are told of, the minutes are stored with each tick."""

# No underscore in front: the names are members of an enum in the launchpad, which can't have those.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_MEMORY = re.compile(r"[1-9][0-9]*[kKmMgGtT]")

# Switches of Spark's own allocation. Either beside ours would fight over the same executors.
_RIVAL_SWITCHES = ("spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled")
# Settings that a field of the declaration already makes.
_FIELD_FOR_SETTING = {
    "spark.app.name": "name",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_memory",
    "spark.driver.memory": "driver_memory",
    "spark.executor.instances": "executors, or autoscale.initial_executors",
    "spark.master": "the cluster the stream is built with",
}


def check_memory(value: str) -> str:
    """A JVM memory size, in small letters.

    Raises:
        ValueError: it is none.
    """
    if not _MEMORY.fullmatch(value):
        raise ValueError('must be a JVM memory size such as "512m" or "2g"')
    return value.lower()


Memory = Annotated[str, AfterValidator(check_memory)]


class Stream(Declaration):
    """One long-running Spark application. Declare a `StructuredStream` or a `DStream`."""

    kind: Literal["structured", "dstream"]

    name: str
    """Names the asset and the Spark application. Letters, digits, underscores; a letter first."""

    program: str
    """Path of the PySpark program. It runs unchanged."""

    arguments: tuple[str, ...] | Callable[[], Sequence[str]] = ()
    """The program's arguments, or a function that returns them when the stream is started.
    Arguments show in process lists: secrets belong in `env`."""

    env: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Variables of the driver, besides those that its cluster gives it of Dagster's."""

    batch_interval: Seconds
    """Seconds. DStreams: the batch duration. Structured Streaming: the trigger interval, or the
    latency you want where the trigger has no interval."""

    executor_cores: int = Field(default=1, ge=1)
    executor_memory: Memory = "1g"
    driver_memory: Memory = "1g"

    spark_conf: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Further Spark settings. They reach the driver in a file only its user can read."""

    checkpoint_location: str | None = None
    """Where the program keeps its checkpoint: an absolute path or a URI. No two streams may share
    one."""

    autoscale: AutoscalePolicy | None = None
    """None: the stream keeps its `executors` until somebody rescales it by hand."""

    executors: int | None = Field(default=None, ge=1)
    """Executors of a stream without an `autoscale` policy; 1 if not given."""

    tasks_per_shard: float = Field(default=1.0, gt=0, le=10_000)
    """How many tasks of a batch can run at a time for each shard of its source. A batch reads each
    shard with one task; a program that repartitions after reading can use more. For sources that
    tell how many shards they read: no policy asks for more executors than those tasks keep busy."""

    recovery: RecoveryPolicy | None = RecoveryPolicy()
    """How a driver that failed is restarted. None: never by itself."""

    report_every: Annotated[Seconds, Field(le=LONGEST_REPORT)] = 600.0
    """Seconds between two events of a stream to which nothing happens. Each has all minutes since
    the one before; what happens is told at once."""

    # What any Dagster asset has.
    description: str | None = None
    key_prefix: tuple[str, ...] = ()
    deps: tuple[Any, ...] = ()
    group: str | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = Field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    automation_condition: Any = None
    metadata: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name_is_safe(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(
                "must be letters, digits and underscores, start with a letter, at most 63 long"
            )
        if value == "mro":
            raise ValueError("Python reserves this one word in enums; take another")
        return value

    @field_validator("program")
    @classmethod
    def _program_is_python(cls, value: str) -> str:
        if not value.endswith(".py"):
            raise ValueError("must be the path of a Python file (.py)")
        return value

    @field_validator("checkpoint_location")
    @classmethod
    def _checkpoint_is_one_place(cls, value: str | None) -> str | None:
        if value is not None:
            normalized(value)
        return value

    @field_validator("autoscale")
    @classmethod
    def _policy_decides(cls, value: AutoscalePolicy | None) -> AutoscalePolicy | None:
        if value is not None and type(value).decide is AutoscalePolicy.decide:
            raise ValueError(f"{type(value).__name__} does not say how to decide; use RatioPolicy")
        return value

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _settings_as_spark_writes_them(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        texts = {}
        for key, setting in value.items():
            if not str(key).startswith("spark."):
                raise ValueError(f'{key}: a Spark setting begins with "spark."')
            if any(character.isspace() for character in str(key)):
                raise ValueError(f"{str(key)!r}: the name of a setting has no blanks")
            if not isinstance(setting, str | int | float):
                raise ValueError(
                    f"{key}: a value must be text, a number or a boolean, "
                    f"not {type(setting).__name__}"
                )
            if isinstance(setting, bool):
                setting = str(setting).lower()
            text = str(setting)
            if "\n" in text or "\r" in text:
                raise ValueError(f"{key}: a value must be one line")
            texts[str(key)] = text
        return texts

    @field_validator("env", "spark_conf", mode="before")
    @classmethod
    def _values_are_there(cls, value: Any) -> Any:
        # The last of those before the fields: Pydantic begins with it.
        if isinstance(value, Mapping):
            for key, given in value.items():
                if isinstance(given, str) and type(given).__name__ == "EnvVar":
                    raise ValueError(
                        f"{key}: an EnvVar is not looked up here; give its value, as by "
                        'os.environ["NAME"], or name the variable in the cluster\'s '
                        "pass_environment"
                    )
        return value

    @model_validator(mode="after")
    def _no_setting_twice(self) -> Self:
        for key, field in _FIELD_FOR_SETTING.items():
            if key in self.spark_conf:
                raise ValueError(f"spark_conf: drop {key}; it is set by {field}")
        for key in _RIVAL_SWITCHES:
            if self.spark_conf.get(key, "").strip().lower() == "true":
                raise ValueError(
                    f"spark_conf: drop {key} = true; Spark's own allocation would fight with the "
                    "executors set from here (RatioPolicy.from_spark_conf takes its settings over)"
                )
        if self.autoscale is not None and self.executors is not None:
            raise ValueError(
                f"executors = {self.executors}: drop it, or drop autoscale; "
                "with a policy, autoscale.initial_executors says how many to start with"
            )
        return self

    @model_validator(mode="after")
    def _cores_suffice(self) -> Self:
        text = self.spark_conf.get("spark.cores.max")
        if text is None:
            return self
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            raise ValueError(
                f"spark_conf: spark.cores.max = {text}: must be a whole number above 0"
            )
        if int(text) < self.executor_cores * self.bounds.minimum:
            raise ValueError(
                f"spark_conf: spark.cores.max = {text}: must be at least "
                f"{self.executor_cores * self.bounds.minimum}, for {self.bounds.minimum} "
                f"executor(s) of {self.executor_cores} core(s)"
            )
        return self

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Self:
        bounds, policy = self.bounds, self.autoscale
        why = f"{bounds.minimum}, the fewest executors this stream can run with"
        if bounds.maximum is not None and bounds.maximum < bounds.minimum:
            raise ValueError(f"autoscale.max_executors = {bounds.maximum}: must be at least {why}")
        given = policy.initial_executors if policy else self.executors
        if given is not None and given < bounds.minimum:
            field = "autoscale.initial_executors" if policy else "executors"
            raise ValueError(f"{field} = {given}: must be at least {why}")
        return self

    @property
    def bounds(self) -> Bounds:
        """What the stream can really reach: `spark.cores.max / spark.executor.cores` is the
        ceiling whatever the policy's maximum says (SPARK-12133)."""
        policy = self.autoscale
        minimum = (policy.min_executors if policy else None) or self._least_executors
        declared = policy.max_executors if policy else None
        maximum, note = declared, None
        if "spark.cores.max" in self.spark_conf:
            cores = int(self.spark_conf["spark.cores.max"])
            ceiling = cores // self.executor_cores
            if declared is None or declared > ceiling:
                maximum = ceiling
                wanted = "no maximum" if declared is None else f"a maximum of {declared}"
                note = (
                    f"{wanted} was declared, but {ceiling} is all it can reach: spark.cores.max "
                    f"{cores} / executor_cores {self.executor_cores}"
                )
        initial = (policy.initial_executors if policy else self.executors) or minimum
        if maximum is not None:
            initial = min(initial, maximum)
        return Bounds(minimum, maximum, initial, note)

    def bounds_for(self, shards: int | None) -> Bounds:
        """The bounds while the stream's sources read `shards` shards; None: they do not tell."""
        task_cpus = self.spark_conf.get("spark.task.cpus", "")
        return self.bounds.for_shards(
            shards,
            tasks_per_shard=self.tasks_per_shard,
            executor_cores=self.executor_cores,
            # Spark itself refuses what is no number.
            cores_per_task=int(task_cpus) if re.fullmatch("[1-9][0-9]{0,8}", task_cpus) else 1,
            receivers=self._receivers,
        )

    @property
    def _receivers(self) -> int:
        return 0

    @property
    def _least_executors(self) -> int:
        return 1

    @property
    def window(self) -> float:
        """Seconds of history that an evaluation looks at."""
        return self.autoscale.interval if self.autoscale else DEFAULT_WINDOW

    def program_arguments(self) -> tuple[str, ...]:
        """The program's arguments now; calls the declared function if there is one.

        Raises:
            ValueError: it returned no list.
        """
        given: Any = self.arguments() if callable(self.arguments) else self.arguments
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(
                f"{self.name}: arguments: the function returned {given!r}; must be a list, such as "
                '["--topic", "clicks"]'
            )
        return tuple(str(argument) for argument in given)


class StructuredStream(Stream):
    """A Structured Streaming application with any number of queries."""

    kind: Literal["structured"] = "structured"


class DStream(Stream):
    """A DStreams application, with or without receivers."""

    kind: Literal["dstream"] = "dstream"

    receivers: int = Field(default=0, ge=0)
    """How many receivers the program starts. Each takes one core for good."""

    @property
    def _receivers(self) -> int:
        return self.receivers

    @property
    def _least_executors(self) -> int:
        # Spark's ExecutorAllocationManager defaults minExecutors to max(1, receivers), which with
        # executors of one core leaves no core for the batches: one more where that would be so.
        return max(1, self.receivers, self.receivers // self.executor_cores + 1)

    @model_validator(mode="after")
    def _receivers_leave_a_core(self) -> Self:
        minimum = self.bounds.minimum
        if self.receivers and minimum * self.executor_cores <= self.receivers:
            raise ValueError(
                f"receivers = {self.receivers}: would take every core of the minimum of {minimum} "
                f"executor(s) of {self.executor_cores} core(s), and no batch could run; raise "
                f"autoscale.min_executors to {self._least_executors}, or executor_cores"
            )
        return self


S = TypeVar("S", bound=Stream)


def streaming_asset(
    stream_type: type[S], **fields: Any
) -> Callable[[Callable[[], Sequence[str] | None]], S]:
    """Declare a stream by decorating a function that returns the program's arguments.

    The function's name is the stream's, its docstring the asset's description. It is called each
    time the stream is started, so it may look things up. Pass the result to `build_defs`.

        @streaming_asset(StructuredStream, program="jobs/clicks.py", batch_interval="10s")
        def clicks():
            "Clicks per page, every ten seconds."
            return ["--topic", "clicks"]
    """

    def declare(function: Callable[[], Sequence[str] | None]) -> S:
        given = {"name": function.__name__, "description": function.__doc__, **fields}
        return stream_type(arguments=lambda: function() or (), **given)

    return declare
