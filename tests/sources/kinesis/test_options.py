import dataclasses
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.options import (
    NAMES,
    Connection,
    Limits,
    Options,
    OptionsError,
    Start,
    parse,
    parse_position,
)
from dagster_sparkscale.sources.kinesis.positions import Kind, Position

SHARD = "shardId-000000000000"
ROLE = "arn:aws:iam::123456789012:role/reader"
KEYS = {"awsAccessKeyId": "AKIA123", "awsSecretAccessKey": "s3cr3t"}


def faults(given):
    with pytest.raises(OptionsError) as raised:
        parse(given)
    head, *lines = str(raised.value).splitlines()
    assert head == "kinesis-direct cannot be set up:"
    return lines


def test_a_name_is_enough():
    assert parse({"streamName": "clicks"}) == Options(Connection("clicks"))


def test_everything_there_is():
    given = {
        "streamName": "clicks",
        "region": "us-gov-west-1",
        "endpointUrl": "http://localhost:4567",
        "startingPosition": "2026-01-31T12:00:00.5Z",
        "endingPosition": "latest",
        "maxRecordsPerTrigger": "10000",
        "maxBytesPerTrigger": " 5 ",
        "maxSpanPerTrigger": "2 min",
        "targetBatchDuration": "500ms",
        "failOnDataLoss": "FALSE",
        "deaggregate": "no",
        **KEYS,
        "awsSessionToken": "t0ken",
        "roleArn": ROLE,
        "roleSessionName": "me@here",
        "externalId": "extra",
        "stsEndpointUrl": "https://sts.example.com/path",
        "connectTimeout": "2s",
        "readTimeout": "1 min",
        "maxRetries": "0",
        "respectServiceLimits": "0",
    }
    assert set(given) | {"awsProfile"} == set(NAMES)
    at = 1_769_860_800_500
    expected = Options(
        Connection(
            stream="clicks",
            region="us-gov-west-1",
            endpoint_url="http://localhost:4567",
            access_key_id="AKIA123",
            secret_access_key="s3cr3t",
            session_token="t0ken",
            role_arn=ROLE,
            role_session_name="me@here",
            external_id="extra",
            sts_endpoint_url="https://sts.example.com/path",
            connect_timeout_s=2.0,
            read_timeout_s=60.0,
            max_retries=0,
            limited=False,
        ),
        start=Start(everywhere=Position(Kind.TIME, time_ms=at)),
        end=Start(latest=True),
        limits=Limits(10_000, 5, 120_000, 500),
        fail_on_data_loss=False,
        deaggregate=False,
    )
    assert parse(given) == expected
    # Spark hands names over as the user wrote them, or in small letters.
    assert parse({name.lower(): value for name, value in given.items()}) == expected


WRONG = {
    "streamName": ["", "a b", "x" * 129, "stre\u00e4m"],
    "region": ["", "eu", "eu-central", "EU-central-1", "eu-central-\u0661"],
    "endpointUrl": ["", "localhost:4567", "ftp://host", "https://", "https://user:s3cr3t@host"],
    "startingPosition": ["", "soon", "{", "{}", "2026-01-31", "2026-01-31T12:00:00", '{"a": 1}'],
    "endingPosition": ["", "trim_horizon", "earliest", '{"a": "trim_horizon"}'],
    "maxRecordsPerTrigger": ["", "0", "-1", "1.5", "many", "\u0661", "9" * 5000],
    "maxBytesPerTrigger": ["", "0", "10mb"],
    "maxSpanPerTrigger": ["", "0", "0s", "8 days", "9" * 400],
    "targetBatchDuration": ["", "0", "soon"],
    "failOnDataLoss": ["", "maybe", "2"],
    "deaggregate": ["", "y"],
    "awsAccessKeyId": [""],
    "awsSecretAccessKey": [""],
    "awsSessionToken": [""],
    "awsProfile": [""],
    "roleArn": [
        "",
        "reader",
        "arn:aws:iam::1:role/reader",
        ROLE.replace("role", "user"),
        ROLE + " x",
    ],
    "roleSessionName": ["", "x", "a b", "x" * 65],
    "externalId": [""],
    "stsEndpointUrl": ["", "sts"],
    "connectTimeout": ["", "0", "-1"],
    "readTimeout": ["", "0"],
    "maxRetries": ["", "-1", "101", "1.0"],
    "respectServiceLimits": ["", "sometimes"],
}
SECRET = {"awsAccessKeyId", "awsSecretAccessKey", "awsSessionToken", "externalId"}
NEEDED = {"roleSessionName": {"roleArn": ROLE}, "externalId": {"roleArn": ROLE}} | {
    "stsEndpointUrl": {"roleArn": ROLE}
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_what_is_wrong_is_named_with_its_value(name, value):
    lines = faults({"streamName": "clicks"} | NEEDED.get(name, {}) | {name: value})
    (line,) = [line for line in lines if line.startswith(f"{name}: ")]
    hidden = name in SECRET or "@" in value
    assert line.startswith(
        f"{name}: (hidden) " if hidden else f"{name}: {value.strip()[:200]!r:.180}"
    )
    assert any(word in line for word in ("must", "JSON", "names no shard"))


def test_every_option_has_a_value_that_is_wrong():
    assert set(WRONG) == set(NAMES)


def test_all_that_is_wrong_is_said_at_once():
    given = {name: values[0] for name, values in WRONG.items()} | {"steamName": "clicks"}
    lines = faults(given)
    named = {line.split(":")[0] for line in lines}
    assert named == set(NAMES) | {"steamName"}
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "streamName: is missing: the name of the Kinesis stream to read"),
        ({"stramName": "a"}, "stramName: there is no such option; did you mean streamName?"),
        ({"x": "a"}, "x: there is no such option; there are streamName, region, "),
        ({"awsAccessKeyId": "a"}, "awsSecretAccessKey: is missing: the two parts"),
        ({"awsSecretAccessKey": "a"}, "awsAccessKeyId: is missing: the two parts"),
        ({"awsSessionToken": "a"}, "awsSessionToken: needs awsAccessKeyId"),
        (KEYS | {"awsProfile": "a"}, "awsProfile: give either a profile or an access key"),
        ({"externalId": "a"}, "externalId: means nothing without roleArn"),
        ({"roleSessionName": "me"}, "roleSessionName: means nothing without roleArn"),
        ({"stsEndpointUrl": "http://a"}, "stsEndpointUrl: means nothing without roleArn"),
    ],
)
def test_what_is_missing_or_does_not_go_together(given, expected):
    assert any(line.startswith(expected) for line in faults(given))


@given(
    st.dictionaries(
        st.sampled_from(sorted(SECRET | {"endpointUrl", "stsEndpointUrl"})),
        st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=20),
        min_size=1,
    )
)
def test_secrets_are_never_shown(secrets):
    given = {"streamName": "clicks", "roleArn": ROLE} | {
        name: f"https://user:{value}@host" if "Url" in name else value
        for name, value in secrets.items()
    }
    try:
        shown = repr(parse(given)) + str(parse(given))
    except OptionsError as error:
        shown = str(error)
    # A secret may be a word of the text by chance, which hypothesis would find.
    words = str(parse({"streamName": "clicks", "roleArn": ROLE})) + " ".join(NAMES)
    for value in secrets.values():
        assert value not in shown or value in words


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(), st.text()))
def test_whatever_is_given_is_options_or_a_text_about_them(given):
    try:
        assert isinstance(parse(given), Options)
    except OptionsError as error:
        assert str(error).count("\n") >= 1


def test_options_are_not_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse({"streamName": "clicks"}).connection.stream = "orders"


@pytest.mark.parametrize("text", ["latest", "LATEST", "Latest"])
def test_latest(text):
    assert parse_position(text) == Start(latest=True)


@pytest.mark.parametrize("text", ["trim_horizon", "TRIM_HORIZON", "trim-horizon", "earliest"])
def test_the_oldest(text):
    assert parse_position(text) == Start(everywhere=Position(Kind.TRIM))


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_moment_is_one_in_any_zone(moment, zone):
    aware = moment.replace(tzinfo=zone)
    expected = Start(everywhere=Position(Kind.TIME, time_ms=round(aware.timestamp() * 1000)))
    assert parse_position(aware.isoformat()) == expected


def test_a_position_for_each_shard():
    text = '{"a": "49", "b": {"at": "50"}, "c": {"after": "51"}, "d": "TRIM_HORIZON"}'
    assert parse_position(text) == Start(
        shards={
            "a": Position(Kind.AFTER, "49"),
            "b": Position(Kind.AT, "50"),
            "c": Position(Kind.AFTER, "51"),
            "d": Position(Kind.TRIM),
        }
    )


@pytest.mark.parametrize(
    "given", ['"4x"', "49", "null", '{"at": 1}', '{"at": "1", "after": "1"}', '{"by": "1"}', '""']
)
def test_a_position_of_a_shard_that_is_none_is_named(given):
    with pytest.raises(ValueError, match="for shard-7: it must be the last sequence number"):
        parse_position(f'{{"shard-7": {given}}}')


def test_a_text_that_is_nested_without_end_is_not_json():
    with pytest.raises(ValueError, match="is not JSON"):
        parse_position('{"a":' * 100_000)
