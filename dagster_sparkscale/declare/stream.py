"""What a user declares of any long-running Spark streaming application, and how it may scale.

Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.calendar import Calendar
from dagster_sparkscale.declare.declaration import Count, Declaration, Number, Seconds, Whole
from dagster_sparkscale.declare.faults import refuse, shown
from dagster_sparkscale.declare.fields import Arguments, Memory, Place, Settings, Variables, is_a
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.declare.part import Part
from dagster_sparkscale.declare.policies import AutoscalePolicy, RecoveryPolicy
from dagster_sparkscale.declare.reserved import reserved
from dagster_sparkscale.declare.state import State

DEFAULT_WINDOW = 60.0
"""Seconds looked at where a stream has no policy to say."""

LONGEST_REPORT = 3600.0
"""Seconds; until they are told of, the minutes are stored with each tick."""

# No underscore in front: the names are members of an enum in the launchpad, which can't have those.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


class Stream(Declaration):
    """One long-running Spark application. Declare a `StructuredStream` or a `DStream`.

    Long, as it is the contract with users: most of it are the fields and what is said of each.
    """

    # Long, for its fields are most of it, which a user reads in one place.

    kind: Literal["structured", "dstream"]

    kinds_of_parts: ClassVar[tuple[type[Part], ...]] = ()
    """All that there are of any stream."""

    name: str
    """Names the asset and the Spark application. Letters, digits, underscores; a letter first."""

    program: str
    """Path of the PySpark program. It runs unchanged."""

    arguments: Arguments = ()
    """The program's arguments, or a function that returns them when the stream is started.
    Arguments show in process lists: secrets belong in `env`."""

    env: Variables = Field(default_factory=dict, repr=False)
    """Variables of the driver, besides those that its cluster gives it of Dagster's."""

    batch_interval: Seconds
    """Seconds. DStreams: the batch duration. Structured Streaming: the trigger interval, or the
    latency you want where the trigger has no interval."""

    executor_cores: Count = 1
    """Cores of an executor."""

    executor_memory: Memory = "1g"
    """Memory of an executor, as Spark has it: `"512m"`, `"4g"`."""

    driver_memory: Memory = "1g"
    """Memory of the driver, likewise."""

    spark_conf: Settings = Field(default_factory=dict, repr=False)
    """Further Spark settings. They reach the driver in a file only its user can read."""

    checkpoint_location: Place | None = None
    """The place of the program's checkpoint: an absolute path or a URI. No two streams may share
    one."""

    autoscale: Annotated[
        AutoscalePolicy | None,
        is_a(AutoscalePolicy, "a policy, such as RatioPolicy(max_executors=8)"),
    ] = None
    """None: the stream keeps its `executors` until somebody rescales it by hand."""

    executors: Count | None = None
    """Executors of a stream without an `autoscale` policy; 1 if not given."""

    tasks_per_shard: Annotated[Number, Field(gt=0, le=10_000)] = 1.0
    """How many tasks of a batch can run at a time for each shard of its source. A batch reads each
    shard with one task; a program that repartitions after reading can use more. For sources that
    tell how many shards they read: no policy asks for more executors than those tasks keep busy."""

    priority: Whole = 0
    """The stream of the highest one is served first, of those that want cores of one `Budget`."""

    recovery: RecoveryPolicy | None = RecoveryPolicy()
    """How a driver that failed is restarted. None: never by itself."""

    state: Annotated[State | None, is_a(State, "a State, such as State(key_groups=128)")] = None
    """The state of stateful queries: its key groups and partitions, and how these may be changed.
    None: it stays as it is. Of a `StructuredStream`."""

    backpressure: Annotated[
        BackpressurePolicy | None,
        is_a(BackpressurePolicy, "a BackpressurePolicy, such as BackpressurePolicy()"),
    ] = None
    """Limits what its sources take while they run, so that batches fit into their interval. None:
    they take what they like, and what `limits` lets them."""

    retune: Annotated[Retune | None, is_a(Retune, "a Retune, such as Retune(apply=True)")] = None
    """How its limits are looked over, from what was seen of it. None: only by hand."""

    calendar: Annotated[
        Calendar | None, is_a(Calendar, "a Calendar, such as Calendar(windows=(Window(...),))")
    ] = None
    """Windows of time in which it is scaled between other bounds, or is left alone. None: never."""

    lineage: Annotated[
        Lineage | None, is_a(Lineage, 'a Lineage, such as Lineage(url="http://marquez:5000")')
    ] = None
    """The OpenLineage server that is told what it reads and writes. None: none is."""

    report_every: Annotated[Seconds, Field(le=LONGEST_REPORT)] = 600.0
    """Seconds between two events of a stream to which nothing happens. Each has all minutes since
    the one before; what happens is told at once."""

    # What any Dagster asset has.
    description: str | None = None
    """The asset's description."""

    key_prefix: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Parts of the asset's key in front of its name."""

    deps: tuple[Any, ...] = ()
    """Assets that the stream reads."""

    group: str | None = None
    """The asset's group."""

    owners: tuple[str, ...] = ()
    """The asset's owners."""

    tags: Mapping[str, str] = Field(default_factory=dict)
    """The asset's tags."""

    kinds: frozenset[str] = frozenset()
    """Kinds of the asset, besides those that every stream has."""

    automation_condition: Any = None
    """The asset's automation condition."""

    metadata: Mapping[str, Any] = Field(default_factory=dict)
    """Further metadata of the asset's definition."""

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

    @field_validator("recovery", mode="before")
    @classmethod
    def _is_a_recovery(cls, value: Any) -> Any:
        fields = isinstance(value, Mapping) and all(isinstance(field, str) for field in value)
        if value is not None and not fields and not isinstance(value, RecoveryPolicy):
            raise ValueError("must be a RecoveryPolicy, or None: never restarted by itself")
        return value

    @field_validator("autoscale")
    @classmethod
    def _policy_decides(cls, value: AutoscalePolicy | None) -> AutoscalePolicy | None:
        if value is not None and type(value).decide is AutoscalePolicy.decide:
            raise ValueError(f"{type(value).__name__} does not say how to decide; use RatioPolicy")
        return value

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        yield from reserved(self.spark_conf, self.kinds_of_parts)
        if self.autoscale is not None and self.executors is not None:
            yield (
                f"executors = {self.executors}: drop it, or drop autoscale; "
                "with a policy, autoscale.initial_executors says how many to start with"
            )

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
        if policy is None or policy.min_executors is None:
            why += "".join(part.why_so_many(self) for part in self.parts)
        if bounds.maximum is not None and bounds.maximum < bounds.minimum:
            raise ValueError(f"autoscale.max_executors = {bounds.maximum}: must be at least {why}")
        given = policy.initial_executors if policy else self.executors
        if given is not None and given < bounds.minimum:
            field = "autoscale.initial_executors" if policy else "executors"
            raise ValueError(f"{field} = {given}: must be at least {why}")
        return self

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for part in self.parts:
            part.check(self)
        if self.retune is not None and not any(part.tunable for part in self.parts):
            raise ValueError(
                "retune: drop it, or give backpressure or limits; there is nothing to tune"
            )
        return self

    @model_validator(mode="after")
    def _calendar_fits(self) -> Self:
        if self.calendar is not None:
            bounds, policy = self.bounds, self.autoscale
            refuse(self.calendar.misfits(bounds.least, bounds.ceiling, scaled=policy is not None))
        return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is declared that brings its own settings, checks and drift."""
        parts = (self.state, self.backpressure, self.lineage)
        return tuple(part for part in parts if part is not None)

    @property
    def pinned(self) -> int:
        """How many places of tasks are taken for good: each receiver takes one."""
        return sum(part.pinned for part in self.parts)

    @property
    def bounds(self) -> Bounds:
        """What the stream can really reach: `spark.cores.max / spark.executor.cores` is the
        ceiling whatever the policy's maximum says (SPARK-12133)."""
        return self.bounds_with(self.pinned)

    def bounds_with(self, pinned: int) -> Bounds:
        """The bounds while so many places of tasks are taken for good."""
        policy, parts, at_a_time = self.autoscale, self.parts, self.tasks_at_a_time
        declared = policy.max_executors if policy else None
        top = (policy.ceiling if policy else None) or declared
        maximum, note = declared or top, None
        if "spark.cores.max" in self.spark_conf:
            cores = int(self.spark_conf["spark.cores.max"])
            ceiling = cores // self.executor_cores
            top = ceiling if top is None else min(top, ceiling)
            if declared is None or declared > ceiling:
                maximum = ceiling
                wanted = "no maximum" if declared is None else f"a maximum of {declared}"
                note = (
                    f"{wanted} was declared, but {ceiling} is all it can reach: spark.cores.max "
                    f"{cores} / executor_cores {self.executor_cores}"
                )
        given = policy.min_executors if policy else None
        minimum = given or max([1, *(part.least_executors(self, pinned) for part in parts)])
        fitting = pinned // at_a_time + 1
        more = pinned > self.pinned
        if more:  # by themselves: as far as they can't do without
            minimum = max(fitting, minimum if maximum is None else min(minimum, maximum))
        initial = (policy.initial_executors if policy else self.executors) or minimum
        if maximum is not None:
            initial = min(initial, maximum)
        if more:
            initial = max(initial, minimum)
        found = Bounds(
            *(minimum, maximum, initial, note),
            pinned=pinned / at_a_time,
            least=min(fitting, minimum),
            ceiling=top,
        )
        for needs in (part.needs(self) for part in parts):
            found = found if needs is None else found.needing(*needs)
        return found

    def bounds_for(self, shards: int | None, pinned: int | None = None) -> Bounds:
        """The bounds while the stream's sources read `shards` shards; None: they do not tell.

        Args:
            pinned: places of tasks that are taken for good; None: as declared.
        """
        there = self.pinned if pinned is None else pinned
        return self.bounds_with(there).for_shards(
            shards,
            tasks_per_shard=self.tasks_per_shard,
            executor_cores=self.executor_cores,
            cores_per_task=self.cores_per_task,
            receivers=there,
        )

    @property
    def tasks_at_a_time(self) -> int:
        """How many tasks one of its executors runs at a time."""
        return self.executor_cores // self.cores_per_task or 1

    @property
    def workload(self) -> Workload:
        """What its policy has to know of it to learn from its minutes."""
        return Workload(
            self.batch_interval, self.tasks_at_a_time, self.tasks_per_shard, self.pinned
        )

    @property
    def cores_per_task(self) -> int:
        """spark.task.cpus; a receiver takes as many."""
        task_cpus = self.spark_conf.get("spark.task.cpus", "")
        # Spark itself refuses what is no number.
        return int(task_cpus) if re.fullmatch("[1-9][0-9]{0,8}", task_cpus) else 1

    @property
    def window(self) -> float:
        """Seconds of history that an evaluation looks at."""
        return self.autoscale.interval if self.autoscale else DEFAULT_WINDOW

    def program_arguments(self) -> tuple[str, ...]:
        """The program's arguments now; calls the declared function if there is one.

        Raises:
            ValueError: the function returned no list of arguments.
        """
        given: Any = self.arguments() if callable(self.arguments) else self.arguments
        if isinstance(given, str | bytes | Set | Mapping) or not isinstance(given, Iterable):
            raise ValueError(
                f"{self.name}: arguments: the function returned {shown(given)}; must be a list, "
                'such as ["--topic", "clicks"]'
            )
        arguments = tuple(given)
        for argument in arguments:
            if argument is None or "\0" in str(argument):
                raise ValueError(
                    f"{self.name}: arguments: the function returned {shown(argument)} among "
                    "them; each must be text, and have no NUL in it"
                )
        return tuple(str(argument) for argument in arguments)
