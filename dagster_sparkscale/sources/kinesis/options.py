"""The options of the source: read, checked, and held as what they mean. Pure.

Whatever is wrong is said before the query starts, all at once, a line each, with the option, its
value and what would be right. Values that may be secrets are never shown.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dagster_sparkscale.durations import parse_duration

from .positions import Kind, Position

DEFAULT_SPAN_MS = 5 * 60 * 1000
"""What a batch covers at most, if the user sets no limit: a first batch must not be a day long."""


class OptionsError(ValueError):
    """One or more options are wrong; the text has a line for each."""


@dataclass(frozen=True)
class Connection:
    """How to reach the service. The secrets are left out of its repr."""

    stream: str
    """streamName."""
    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "kinesis-direct"
    external_id: str | None = field(default=None, repr=False)
    sts_endpoint_url: str | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 20.0
    max_retries: int = 10
    limited: bool = True
    """Whether to keep inside the service's limits for a shard without being refused first."""


@dataclass(frozen=True)
class Limits:
    """What a batch may be at most; None where there is no such limit."""

    records: int | None = None
    bytes: int | None = None
    span_ms: int | None = None
    """The span of the stream's own time that a batch may cover."""
    duration_ms: int | None = None
    """How long a batch should take, by what batches have taken so far."""


@dataclass(frozen=True)
class Start:
    """A declared begin: one position for all shards, or one for each named shard."""

    everywhere: Position | None = None
    latest: bool = False
    shards: Mapping[str, Position] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    connection: Connection
    start: Start | None = None
    """None where the user has said nothing: LATEST for a stream, TRIM_HORIZON for a batch read."""
    end: Start | None = None
    """Batch reads only; None for all there is."""
    limits: Limits = Limits()
    fail_on_data_loss: bool = True
    deaggregate: bool = True


_TRUE = {"true", "1", "yes"}
_FALSE = {"false", "0", "no"}
_SECRET = re.compile(r"secret|token|key|externalid", re.IGNORECASE)
_SEQUENCE = re.compile(r"[0-9]{1,128}")


def parse(texts: Mapping[str, Any]) -> Options:
    """Read the options from Spark's form: all texts, names in any case.

    Raises:
        OptionsError: an option is missing, unknown or wrong.
    """
    values = {name.lower(): str(value) for name, value in texts.items()}
    faults = [_unknown(name) for name in texts if name.lower() not in _KNOWN]
    read: dict[str, Any] = {}
    for name, (_, _, reader) in _OPTIONS.items():
        if (value := values.get(name.lower())) is None:
            continue
        try:
            read[name] = reader(value.strip())
        except ValueError as error:
            hidden = _SECRET.search(name) or "@" in value  # a URL may hold a password
            shown = "(hidden)" if hidden else repr(value[:200])
            faults.append(f"{name}: {shown} {error}")
    faults += _contradictions(values, read)
    if faults:
        raise OptionsError("kinesis-direct cannot be set up:\n" + "\n".join(sorted(faults)))

    def fields(of: type) -> dict[str, Any]:
        return {_OPTIONS[name][1]: value for name, value in read.items() if _OPTIONS[name][0] is of}

    connection, limits = Connection(**fields(Connection)), Limits(**fields(Limits))
    return Options(connection, limits=limits, **fields(Options))


def _contradictions(values: Mapping[str, str], read: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the options together.

    Args:
        values: what is set, by names in lower case.
        read: what of it makes sense by itself, by option.
    """
    if "streamname" not in values:
        yield "streamName: is missing: the name of the Kinesis stream to read"
    key, secret = "awsAccessKeyId", "awsSecretAccessKey"
    for name, other in ((key, secret), (secret, key)):
        if other in read and name not in read:
            yield f"{name}: is missing: the two parts of an access key go together"
    if "awsSessionToken" in read and key not in read:
        yield f"awsSessionToken: needs {key} and {secret} with it"
    if "awsProfile" in read and key in read:
        yield "awsProfile: give either a profile or an access key, not both"
    for name in ("externalId", "roleSessionName", "stsEndpointUrl"):
        if name.lower() in values and "roleArn" not in read:
            yield f"{name}: means nothing without roleArn: give the role, or leave it out"


def _unknown(name: str) -> str:
    begun = [each for each in _KNOWN if each.startswith(name.lower())]
    near = begun or difflib.get_close_matches(name.lower(), _KNOWN, n=1)
    known = {each.lower(): each for each in NAMES}
    hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(NAMES)}"
    return f"{name}: there is no such option; {hint}"


def parse_position(text: str) -> Start:
    """A startingPosition: `latest`, `trim_horizon`, a moment, or JSON with one for each shard.

    Raises:
        ValueError: the text is none of these.
    """
    if text.startswith("{"):
        try:
            shards = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not JSON: {error}") from None
        if not shards:
            raise ValueError("names no shard")
        return Start(shards={shard: _of_shard(shard, each) for shard, each in shards.items()})
    return _simple(text)


def _simple(text: str) -> Start:
    name = text.lower().replace("-", "_")
    if name == "latest":
        return Start(latest=True)
    if name in ("trim_horizon", "earliest"):
        return Start(everywhere=Position(Kind.TRIM))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "must be latest, trim_horizon, a moment such as 2026-01-31T12:00:00Z, or JSON that "
            'has the last sequence number read of each shard: {"shardId-000000000000": "4957..."}'
        ) from None
    if moment.tzinfo is None:
        raise ValueError("must name its time zone: add Z for UTC, or an offset such as +02:00")
    return Start(everywhere=Position(Kind.TIME, time_ms=round(moment.timestamp() * 1000)))


def _of_shard(shard: str, declared: Any) -> Position:
    if isinstance(declared, str) and _SEQUENCE.fullmatch(declared):
        return Position(Kind.AFTER, declared)
    if isinstance(declared, Mapping) and len(declared) == 1:
        ((how, sequence),) = declared.items()
        kinds = {"at": Kind.AT, "after": Kind.AFTER}
        if how in kinds and isinstance(sequence, str) and _SEQUENCE.fullmatch(sequence):
            return Position(kinds[how], sequence)
    if isinstance(declared, str) and declared.lower() == "trim_horizon":
        return Position(Kind.TRIM)
    raise ValueError(
        f"has {declared!r} for {shard}: it must be the last sequence number that was read, in "
        'quotes, {"at": "..."} for the next one to be read, or "trim_horizon"'
    )


def _ending_position(text: str) -> Start:
    start = parse_position(text)
    positions = [start.everywhere, *start.shards.values()]
    if any(position and position.kind is Kind.TRIM for position in positions):
        raise ValueError("must not be trim_horizon: give latest, a moment, or sequence numbers")
    return start


def _text(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


def _matching(pattern: str, must: str) -> Callable[[str], str]:
    """Reads a value that `pattern` matches as a whole.

    Args:
        must: what it must be, in words.
    """

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {must}")
        return value

    return read


_stream_name = _matching(
    r"[a-zA-Z0-9_.-]{1,128}", "the name of a stream: up to 128 letters, digits, _ . and -"
)
_region = _matching(r"[a-z]{2}(-[a-z]+)+-[0-9]+", "an AWS region such as eu-central-1")
_url = _matching(
    r"https?://[^\s/@]+(/.*)?", "an address such as https://kinesis.eu-central-1.amazonaws.com"
)
_role = _matching(
    r"arn:aws[a-z-]*:iam::[0-9]{12}:role/\S+",
    "the ARN of a role: arn:aws:iam::123456789012:role/name",
)
_session_name = _matching(r"[a-zA-Z0-9_+=,.@-]{2,64}", "2 to 64 letters, digits and + = , . @ - _")


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value) or int(value) < 1:
        raise ValueError("must be a whole number above 0, of up to 18 digits")
    return int(value)


def _retries(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or int(value) > 100:
        raise ValueError("must be a whole number from 0 to 100")
    return int(value)


def _seconds(value: str) -> float:
    seconds = parse_duration(value)
    if not 0.001 <= seconds <= 7 * 86400:
        raise ValueError("must be from 1 ms to 7 days")
    return seconds


def _milliseconds(value: str) -> int:
    return round(_seconds(value) * 1000)


def _boolean(value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ValueError("must be true or false")


_OPTIONS: dict[str, tuple[type, str, Callable[[str], Any]]] = {
    "streamName": (Connection, "stream", _stream_name),
    "region": (Connection, "region", _region),
    "endpointUrl": (Connection, "endpoint_url", _url),
    "startingPosition": (Options, "start", parse_position),
    "endingPosition": (Options, "end", _ending_position),
    "maxRecordsPerTrigger": (Limits, "records", _count),
    "maxBytesPerTrigger": (Limits, "bytes", _count),
    "maxSpanPerTrigger": (Limits, "span_ms", _milliseconds),
    "targetBatchDuration": (Limits, "duration_ms", _milliseconds),
    "failOnDataLoss": (Options, "fail_on_data_loss", _boolean),
    "deaggregate": (Options, "deaggregate", _boolean),
    "awsAccessKeyId": (Connection, "access_key_id", _text),
    "awsSecretAccessKey": (Connection, "secret_access_key", _text),
    "awsSessionToken": (Connection, "session_token", _text),
    "awsProfile": (Connection, "profile", _text),
    "roleArn": (Connection, "role_arn", _role),
    "roleSessionName": (Connection, "role_session_name", _session_name),
    "externalId": (Connection, "external_id", _text),
    "stsEndpointUrl": (Connection, "sts_endpoint_url", _url),
    "connectTimeout": (Connection, "connect_timeout_s", _seconds),
    "readTimeout": (Connection, "read_timeout_s", _seconds),
    "maxRetries": (Connection, "max_retries", _retries),
    "respectServiceLimits": (Connection, "limited", _boolean),
}
"""Each option: whose field it is, the field, and what reads its text."""
NAMES = tuple(_OPTIONS)
_KNOWN = {name.lower() for name in NAMES}
