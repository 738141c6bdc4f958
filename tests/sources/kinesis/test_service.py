"""The calls to Kinesis as far as they need no server: answers are put in where boto3 would have
sent the request, so its own serializer, parser and errors are at work."""

import json
from base64 import b64encode
from email.utils import formatdate
from io import BytesIO

import pytest
from botocore.awsrequest import AWSResponse

from dagster_sparkscale.sources.kinesis.client import KinesisError, open_client, open_session
from dagster_sparkscale.sources.kinesis.options import Connection
from dagster_sparkscale.sources.kinesis.positions import END, Kind, Position
from dagster_sparkscale.sources.kinesis.service import (
    ExpiredIterator,
    Page,
    Service,
    arrived_ms,
)
from dagster_sparkscale.sources.kinesis.shards import Shard
from tests import clocks

CONNECTION = Connection(
    "clicks",
    region="eu-central-1",
    access_key_id="AKIA123",
    secret_access_key="s3cr3t",
    max_retries=0,
)
NOW = 1_790_000_000
RECORD = {
    "SequenceNumber": "4957",
    "ApproximateArrivalTimestamp": 1.790000000123e9,
    "Data": b64encode(b"abc").decode(),
    "PartitionKey": "k",
}


class Raw(BytesIO):
    def stream(self, **_):
        yield self.read()


class Answers:
    """What the service answers, in order; and what it was asked."""

    def __init__(self, service):
        self.given = []
        self.asked = []
        for client in (service._client, service._hasty):
            client.meta.events.register("before-send.kinesis.*", self.send)

    def add(self, body, status=200, date=NOW):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Date": formatdate(date, usegmt=True)} if date else {}
        self.given.append((status, headers, text))

    def send(self, request, **_):
        operation = request.headers["X-Amz-Target"].decode().split(".")[1]
        self.asked.append((operation, json.loads(request.body)))
        status, headers, text = self.given.pop(0)
        return AWSResponse(request.url, status, headers, Raw(text))


@pytest.fixture(scope="module")
def answering():
    # It takes boto3 a second to make a client.
    service = Service(CONNECTION)
    return service, Answers(service)


@pytest.fixture
def service(answering, monkeypatch):
    clocks.replace(monkeypatch, "sleep", lambda _: None)
    service, _ = answering
    service._clock_ahead.clear()
    return service


@pytest.fixture
def answers(answering):
    _, answers = answering
    answers.given.clear()
    answers.asked.clear()
    return answers


def test_records_come_as_the_service_wrote_them(service, answers):
    answers.add({"Records": [RECORD], "NextShardIterator": "next", "MillisBehindLatest": 7})
    page = service.records("shard", "iterator", 10)
    assert page == Page([RECORD], "next", 7)
    assert arrived_ms(page.records[0]) == 1_790_000_000_123
    assert answers.asked == [("GetRecords", {"ShardIterator": "iterator", "Limit": 10})]


def test_the_end_of_a_shard_has_no_next_iterator(service, answers):
    answers.add({"Records": [], "NextShardIterator": None, "MillisBehindLatest": 0})
    answers.add({"Records": []})
    for _ in range(2):
        assert service.records("shard", "iterator", 10) == Page([], None, 0)


def test_other_answers_go_through_botos_own_parser(service, answers):
    answers.add({"StreamDescriptionSummary": {"RetentionPeriodHours": 168}})
    assert service.retention_ms() == 7 * 24 * 3_600_000
    assert answers.asked == [("DescribeStreamSummary", {"StreamName": "clicks"})]


def test_an_answer_that_cannot_be_read_is_asked_for_again(service, answers):
    answers.add(b"<html>")
    answers.add({})
    answers.add({"Records": [RECORD], "NextShardIterator": "next"})
    assert service.records("shard", "iterator", 10) == Page([RECORD], "next", 0)


@pytest.mark.parametrize("body", [b"<html>", b"", b"{}"])
def test_something_else_than_kinesis_is_told(service, answers, body):
    for _ in range(9):
        answers.add(body)
    with pytest.raises(KinesisError, match=r"GetRecords|get_records: https://kinesis.eu-central-1"):
        service.records("shard", "iterator", 10)


def error(code):
    return {"__type": code, "message": "so it said"}


def test_an_expired_iterator_is_no_failure(service, answers):
    answers.add(error("ExpiredIteratorException"), 400)
    with pytest.raises(ExpiredIterator):
        service.records("shard", "iterator", 10)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("ResourceNotFoundException", "there is no stream 'clicks', or no such shard in it"),
        ("AccessDeniedException", "the credentials need kinesis:ListShards"),
        ("UnrecognizedClientException", "the credentials are not valid"),
        ("ExpiredTokenException", "use a role instead"),
        ("InvalidArgumentException", "not of this stream"),
        ("LimitExceededException", "so it said"),
    ],
)
def test_a_refusal_says_what_to_do(service, answers, code, hint):
    answers.add(error(code), 400)
    with pytest.raises(KinesisError, match="so it said") as raised:
        service.shards()
    assert hint in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


def test_shards_and_their_lineage_page_by_page(service, answers):
    first = {"ShardId": "a", "SequenceNumberRange": {"StartingSequenceNumber": "1"}}
    first["SequenceNumberRange"]["EndingSequenceNumber"] = "9"
    first["HashKeyRange"] = {"StartingHashKey": "0", "EndingHashKey": "1"}
    second = {"ShardId": "b", "SequenceNumberRange": {"StartingSequenceNumber": "2"}}
    second |= {"ParentShardId": "a", "AdjacentParentShardId": "x"}
    answers.add({"Shards": [first], "NextToken": "more"})
    answers.add({"Shards": [second]})
    assert service.shards() == [
        Shard("a", (), True, "1"),
        Shard("b", ("a", "x"), False, "2"),
    ]
    assert answers.asked == [
        ("ListShards", {"StreamName": "clicks"}),
        ("ListShards", {"NextToken": "more"}),
    ]


@pytest.mark.parametrize(
    ("position", "asked"),
    [
        (Position(Kind.TRIM, time_ms=5), {"ShardIteratorType": "TRIM_HORIZON"}),
        (
            Position(Kind.AT, "49", 5),
            {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "49"},
        ),
        (
            Position(Kind.AFTER, "49", 5),
            {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": "49"},
        ),
        (
            Position(Kind.TIME, time_ms=1_700_000_000_123),
            {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1_700_000_000.123},
        ),
    ],
)
@pytest.mark.parametrize("hasty", [False, True])
def test_an_iterator_for_each_kind_of_position(service, answers, position, asked, hasty):
    answers.add({"Shards": []})
    answers.add({"ShardIterator": "here"})
    service.shards()
    assert service.iterator("a", position, hasty) == "here"
    assert answers.asked[1:] == [
        ("GetShardIterator", {"StreamName": "clicks", "ShardId": "a"} | asked)
    ]


def test_the_future_is_not_asked_for(service, answers):
    answers.add({"Shards": []})
    answers.add({"ShardIterator": "here"})
    service.iterator("a", Position(Kind.TIME, time_ms=(NOW + 3600) * 1000))
    asked = answers.asked[-1][1]["Timestamp"]
    assert NOW <= asked < NOW + 600


def test_nothing_is_read_of_what_was_read_to_its_end(service):
    with pytest.raises(ValueError, match="a has been read to its end"):
        service.iterator("a", END)


def test_the_clock_is_the_services_own(service, answers):
    answers.add({"Shards": []}, date=NOW)
    answers.add({"Shards": []}, date=NOW + 5)
    assert NOW * 1000 <= service.now_ms() < (NOW + 4) * 1000
    service.shards()
    # The service has gone on faster than this machine.
    assert (NOW + 5) * 1000 <= service.now_ms() < (NOW + 600) * 1000


def test_no_region_is_told(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(KinesisError, match=r"You must specify a region. See the options region"):
        Service(Connection("clicks", access_key_id="a", secret_access_key="b"))


def test_a_profile_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(KinesisError, match=r"profile \(reader\) could not be found"):
        open_session(Connection("clicks", region="eu-central-1", profile="reader"))


def test_the_options_are_those_of_the_client():
    connection = Connection(
        "clicks",
        region="us-east-1",
        endpoint_url="http://localhost:4567",
        access_key_id="AKIA123",
        secret_access_key="s3cr3t",
        session_token="t0ken",
        connect_timeout_s=1.5,
        read_timeout_s=2.5,
    )
    session = open_session(connection)
    client = open_client(session, connection, 7, 3)
    config = client.meta.config
    assert client.meta.endpoint_url == "http://localhost:4567"
    assert (config.connect_timeout, config.read_timeout) == (1.5, 2.5)
    assert config.max_pool_connections == 7
    assert config.retries == {"mode": "standard", "total_max_attempts": 4}
    found = session.get_credentials()
    assert (found.access_key, found.secret_key, found.token) == ("AKIA123", "s3cr3t", "t0ken")


def test_a_role_is_assumed_when_it_is_needed_and_not_before():
    connection = Connection(
        "clicks",
        region="eu-central-1",
        access_key_id="AKIA123",
        secret_access_key="s3cr3t",
        role_arn="arn:aws:iam::123456789012:role/reader",
        role_session_name="me",
        external_id="extra",
        sts_endpoint_url="http://localhost:9",
    )
    session = open_session(connection)
    credentials = session.get_credentials()
    assert credentials.method == "assume-role"
    fetcher = credentials._refresh_using.__self__
    assert fetcher._role_arn == connection.role_arn
    assert fetcher._assume_kwargs["RoleSessionName"] == "me"
    assert fetcher._assume_kwargs["ExternalId"] == "extra"
    sts = fetcher._create_client()
    assert sts.meta.endpoint_url == "http://localhost:9"
    assert sts.meta.region_name == "eu-central-1"


def test_a_role_without_anything_to_assume_it_with_is_told(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    role = "arn:aws:iam::123456789012:role/reader"
    with pytest.raises(KinesisError, match="no AWS credentials to assume"):
        open_session(Connection("clicks", region="eu-central-1", role_arn=role))
