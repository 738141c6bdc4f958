"""What is given in a declaration: what each may be, and what is said of anything else. Pure."""

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from dagster_sparkscale.declare.checkpoints import normalized
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import refuse, shown

_MEMORY = re.compile(r"[1-9][0-9]*[kKmMgGtT]")


def check_memory(value: Any) -> str:
    """A JVM memory size, in small letters; refuses what is none."""
    if not isinstance(value, str) or not _MEMORY.fullmatch(value):
        raise ValueError('must be a JVM memory size such as "512m" or "2g"')
    return value.lower()


_MEBIBYTES = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def mebibytes(memory: str) -> float:
    """The MiB of a JVM memory size such as "512m"."""
    return int(memory[:-1]) * _MEBIBYTES[memory[-1].lower()]


def check_cluster_key(value: Any) -> None:
    """Refuse what can't be the key of a cluster among the resources, and part of names."""
    if (
        not isinstance(value, str)
        or not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", value)
        or keyword.iskeyword(value)
    ):
        raise DeclarationError(
            f"cluster_key = {shown(value)}: must be letters, digits and underscores, "
            "start with a letter, and be no keyword of Python"
        )
    if value == "io_manager":
        raise DeclarationError("cluster_key = 'io_manager': Dagster has that resource itself")
    if re.match(r"shard_\d{1,3}(_|$)", value):
        raise DeclarationError(
            f"cluster_key = {value!r}: its sensor would be called autoscaler_{value}, as a shard "
            "of another cluster is; choose a key that does not begin with shard_ and a number"
        )


def check_switch(name: str, value: Any) -> None:
    """Refuse what is neither True nor False: "no" would be taken for yes."""
    if not isinstance(value, bool):
        raise DeclarationError(f"{name} = {shown(value)}: must be True or False")


MOST_SHARDS = 100
"""Sensors that evaluate the streams of one cluster, at most."""


def check_shards(value: Any) -> None:
    """Refuse what is no number of sensors."""
    if type(value) is not int or not 1 <= value <= MOST_SHARDS:
        raise DeclarationError(
            f"shards = {shown(value)}: must be a whole number from 1 to {MOST_SHARDS}, such as one "
            "for each 800 streams"
        )


def _arguments(value: Any) -> Any:
    if callable(value):
        return value
    if not isinstance(value, list | tuple):  # a set has no order
        raise ValueError(
            'must be a list, such as ["--topic", "clicks"], or a function that returns one'
        )
    for argument in value:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"{shown(argument)}: each must be text, and have no NUL in it")
    return tuple(value)


def _variables(value: Any) -> Any:
    if isinstance(value, Mapping):
        refuse(fault for each in value.items() if (fault := _variable_fault(*each)))
    return value


def _variable_fault(name: Any, given: Any) -> str | None:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        # Not what is behind the "=": it may be the secret itself.
        return f'{str(name).partition("=")[0]!r}: must be the name of a variable, such as "TOKEN"'
    if not isinstance(given, str):
        return f"{name}: its value must be text, not {type(given).__name__}"
    if "\0" in given:
        return f"{name}: its value must have no NUL in it"
    return None


def _settings(value: Any) -> Any:
    """Settings in Spark's own form."""
    if not isinstance(value, Mapping):
        return value
    refuse(fault for each in value.items() if (fault := _setting_fault(*each)))
    return {
        str(key): str(setting).lower() if isinstance(setting, bool) else str(setting)
        for key, setting in value.items()
    }


def _setting_fault(key: Any, setting: Any) -> str | None:
    if not str(key).startswith("spark."):
        return f'{key}: a Spark setting begins with "spark."'
    if any(character.isspace() for character in str(key)):
        return f"{str(key)!r}: the name of a setting has no blanks"
    if not isinstance(setting, str | int | float):
        return f"{key}: a value must be text, a number or a boolean, not {type(setting).__name__}"
    if {*"\n\r"} & {*str(setting)}:
        return f"{key}: a value must be one line"
    return None


def _are_there(value: Any) -> Any:
    for key, given in value.items() if isinstance(value, Mapping) else ():
        if isinstance(given, str) and type(given).__name__ == "EnvVar":
            raise ValueError(
                f"{key}: an EnvVar is not looked up here; give its value, as by "
                'os.environ["NAME"], or name the variable in the cluster\'s pass_environment'
            )
    return value


def _place(value: str) -> str:
    normalized(value)
    return value


def is_a(kind: type, right: str) -> BeforeValidator:
    """Refuses what is no `kind`, nor None; a dict would else be taken for its fields.

    Args:
        right: what is right, in words.
    """

    def check(value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"must be {right}, or None")
        return value

    return BeforeValidator(check)


# Of several that run before the type is looked at, Pydantic begins with the last.
Arguments = Annotated[tuple[str, ...] | Callable[[], Sequence[str]], BeforeValidator(_arguments)]
Memory = Annotated[str, BeforeValidator(check_memory)]
Place = Annotated[str, AfterValidator(_place)]
"""The place of a checkpoint."""
Settings = Annotated[Mapping[str, str], BeforeValidator(_settings), BeforeValidator(_are_there)]
Variables = Annotated[Mapping[str, str], BeforeValidator(_variables), BeforeValidator(_are_there)]
