"""That the proxy tells the truth about what went through it, and fails as it is told to."""

import json
import socket
import threading
import time

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ReadTimeoutError,
)
from hypothesis import given
from hypothesis import strategies as st

from dev.kinesis import client, create_stream, wait_until_active
from tests.sources.kinesis.faults import MIB, Allowance
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.reading import read_shard
from tests.waiting import wait_for

SHARD = "shardId-000000000000"
OTHER = "shardId-000000000001"
HANGS = 120.0
"""What hangs must end sooner than this, the client's own patience."""


@pytest.fixture
def through(proxy):
    """A client of the proxy that does not try again by itself."""
    made = client(proxy.url, attempts=1, timeout=HANGS)
    yield made
    made.close()


def iterator(through, stream, shard=SHARD):
    return through.get_shard_iterator(
        StreamName=stream.name, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]


def code_of(call):
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value.response["Error"]["Code"]


def test_what_is_read_is_counted_by_shard(stream, proxy, through):
    made = stream(2)
    made.put(101, size=50)
    read = {shard: read_shard(through, made.name, shard, limit=20) for shard in (SHARD, OTHER)}
    assert proxy.records == {shard: len(records) for shard, records in read.items()}
    assert sum(proxy.records.values()) == 101
    for shard, records in read.items():
        sizes = [len(r["Data"]) + len(r["PartitionKey"]) for r in records]
        assert proxy.bytes[shard] == sum(sizes)
        log = proxy.log("GetRecords", shard)
        assert len(log) == proxy.calls("GetRecords", shard) >= len(records) / 20
        assert proxy.times("GetRecords", shard) == [call.at for call in log]
    assert proxy.calls("GetShardIterator") == 2
    assert proxy.calls() == 2 + proxy.calls("GetRecords")
    assert {call.outcome for call in proxy.log()} == {"ok"}


def test_errors_of_the_emulator_are_passed_on_and_noted(proxy, through):
    assert code_of(lambda: through.list_shards(StreamName="none")) == "ResourceNotFoundException"
    assert [call.outcome for call in proxy.log("ListShards")] == ["ResourceNotFoundException"]


@pytest.mark.parametrize(
    ("given_code", "status", "expected"),
    [
        ("ProvisionedThroughputExceededException", 400, None),
        ("ExpiredIteratorException", 400, None),
        ("", 500, "InternalFailure"),
        ("", 503, "ServiceUnavailable"),
    ],
)
def test_the_next_calls_are_answered_with_an_error(
    stream, proxy, through, given_code, status, expected
):
    made = stream()
    made.put(5)
    rule = proxy.fail("GetRecords", given_code, status=status, times=2)
    start = iterator(through, made)
    for _ in range(2):
        with pytest.raises(ClientError) as caught:
            through.get_records(ShardIterator=start)
        assert caught.value.response["Error"]["Code"] == (expected or given_code)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert rule.left == 0
    assert len(through.get_records(ShardIterator=start)["Records"]) == 5
    assert proxy.records[SHARD] == 5


def test_an_error_needs_a_name(proxy):
    with pytest.raises(ValueError, match="code: empty with status 400"):
        proxy.fail("GetRecords")


def test_a_rule_is_for_its_shard_and_until_it_is_taken_back(stream, proxy, through):
    made = stream(2)
    proxy.fail("GetRecords", "ExpiredIteratorException", shard=OTHER, times=1000)
    mine, others = iterator(through, made), iterator(through, made, OTHER)
    through.get_records(ShardIterator=mine)
    for _ in range(3):
        code = code_of(lambda: through.get_records(ShardIterator=others))
        assert code == "ExpiredIteratorException"
    proxy.heal()
    through.get_records(ShardIterator=others)


def test_a_rule_follows_the_iterators_of_a_shard(stream, proxy, through):
    made = stream()
    answer = through.get_records(ShardIterator=iterator(through, made))
    proxy.fail("GetRecords", "ExpiredIteratorException", shard=SHARD)
    following = answer["NextShardIterator"]
    assert (
        code_of(lambda: through.get_records(ShardIterator=following)) == "ExpiredIteratorException"
    )


def test_the_connection_is_closed_without_an_answer(stream, proxy, through):
    made = stream()
    proxy.drop("ListShards")
    with pytest.raises(ConnectionClosedError):
        through.list_shards(StreamName=made.name)
    assert through.list_shards(StreamName=made.name)["Shards"]


def test_a_call_hangs_until_the_client_has_no_more_patience(stream, proxy):
    made = stream()
    hasty = client(proxy.url, attempts=1, timeout=0.3)
    proxy.hang("ListShards")
    with pytest.raises(ReadTimeoutError):
        hasty.list_shards(StreamName=made.name)
    patient = client(proxy.url, attempts=1, timeout=HANGS)
    assert patient.list_shards(StreamName=made.name)["Shards"]
    assert [call.outcome for call in proxy.log("ListShards")] == ["hang", "ok"]


def test_closing_the_proxy_ends_what_hangs(emulator, stream):
    made = stream()
    ended = []

    def call(url):
        try:
            client(url, attempts=1, timeout=HANGS).list_shards(StreamName=made.name)
        except ConnectionClosedError as error:
            ended.append(error)

    with FaultProxy(emulator.url) as proxy:
        proxy.hang("ListShards")
        caller = threading.Thread(target=call, args=(proxy.url,), daemon=True)
        caller.start()
        wait_for("the call to hang", lambda: proxy.calls("ListShards"), every=0.02)
        assert not ended
    caller.join(30)
    assert len(ended) == 1


@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
def test_closing_the_proxy_ends_what_hangs_at_the_emulator(emulator, stream):
    made = stream()
    ended = []

    def call(url):
        try:
            client(url, attempts=1, timeout=HANGS).get_shard_iterator(
                StreamName=made.name,
                ShardId=SHARD,
                ShardIteratorType="AT_TIMESTAMP",
                Timestamp=time.time() - 1,
            )
        except ConnectionClosedError as error:
            ended.append(error)

    with FaultProxy(emulator.url) as proxy:
        caller = threading.Thread(target=call, args=(proxy.url,), daemon=True)
        caller.start()
        # Two sockets: of the client, and to the emulator, which never answers.
        wait_for("the call to be forwarded", lambda: len(proxy._sockets) == 2, every=0.02)
    caller.join(30)
    assert len(ended) == 1


def test_an_answer_is_cut_short(stream, proxy):
    made = stream()
    made.put(20)
    proxy.cut("ListShards")
    body = json.dumps({"StreamName": made.name})
    target = proxy.url.rpartition(":")[2]
    with socket.create_connection(("127.0.0.1", int(target))) as raw:
        raw.sendall(
            "POST / HTTP/1.1\r\nHost: emulator\r\nContent-Type: application/x-amz-json-1.1\r\n"
            "X-Amz-Target: Kinesis_20131202.ListShards\r\nX-Amz-Date: 20200101T000000Z\r\n"
            "Authorization: AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/kinesis/aws4_request,"
            " SignedHeaders=host, Signature=0\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, content = received.partition(b"\r\n\r\n")
    assert b"200 OK" in head
    promised = int(head.lower().partition(b"content-length:")[2].split()[0])
    assert 0 < len(content) == promised // 2


def test_botocore_takes_an_answer_that_was_cut_for_an_empty_one(stream, proxy, through):
    """Not of the proxy, but what makes the fault dangerous: NextShardIterator is missing too, as it
    is at the end of a closed shard."""
    made = stream()
    made.put(20)
    start = iterator(through, made)
    proxy.cut("GetRecords")
    assert through.get_records(ShardIterator=start).keys() == {"ResponseMetadata"}
    assert proxy.records[SHARD] == 0
    assert len(through.get_records(ShardIterator=start)["Records"]) == 20


def test_a_call_is_held_back(stream, proxy, through):
    made = stream()
    proxy.slow("ListShards", 0.5)
    began = time.monotonic()
    assert through.list_shards(StreamName=made.name)["Shards"]
    assert time.monotonic() - began >= 0.5
    assert proxy.log("ListShards")[0].outcome == "ok"


def test_trimmed_records_are_no_longer_there(stream, proxy, through):
    made = stream(2)
    made.put(60)
    before = {shard: read_shard(through, made.name, shard) for shard in (SHARD, OTHER)}
    oldest_left = before[SHARD][10]["SequenceNumber"]
    proxy.trim(SHARD, oldest_left)
    left = read_shard(through, made.name, SHARD)
    assert left == before[SHARD][10:]
    assert read_shard(through, made.name, SHARD, limit=3) == before[SHARD][10:]
    assert proxy.log("GetRecords", SHARD)[-1].records == 0
    proxy.trim(SHARD, int(before[SHARD][-1]["SequenceNumber"]) + 1)
    assert read_shard(through, made.name, SHARD) == []
    assert read_shard(through, made.name, OTHER) == before[OTHER]


def test_a_closed_shard_expires(stream, proxy, through):
    made = stream()
    children = made.split(SHARD)
    proxy.expire(SHARD)
    listed = through.list_shards(StreamName=made.name)["Shards"]
    assert sorted(shard["ShardId"] for shard in listed) == sorted(children)
    assert {shard["ParentShardId"] for shard in listed} == {SHARD}
    described = through.describe_stream(StreamName=made.name)["StreamDescription"]["Shards"]
    assert {shard["ShardId"] for shard in described} == set(children)
    assert code_of(lambda: iterator(through, made)) == "ResourceNotFoundException"
    assert iterator(through, made, children[0])


def test_the_lag_is_what_the_test_says(stream, proxy, through):
    made = stream(2)
    proxy.behind_ms(SHARD, 123_456)
    assert [
        through.get_records(ShardIterator=iterator(through, made, shard))["MillisBehindLatest"]
        for shard in (SHARD, OTHER)
    ] == [123_456, 0]
    proxy.behind_ms(SHARD, None)
    assert through.get_records(ShardIterator=iterator(through, made))["MillisBehindLatest"] == 0


def test_calls_over_the_limit_are_refused_and_counted_by_shard(stream, proxy, through):
    made = stream(2)
    made.put(10)
    starts = {shard: iterator(through, made, shard) for shard in (SHARD, OTHER)}
    proxy.limits = True
    refused = 0
    # Faster than five a second for certain: many at once.
    callers = []
    lock = threading.Lock()

    def call():
        nonlocal refused
        try:
            through.get_records(ShardIterator=starts[SHARD])
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ProvisionedThroughputExceededException"
            with lock:
                refused += 1

    for _ in range(30):
        callers.append(threading.Thread(target=call))
        callers[-1].start()
    for caller in callers:
        caller.join()
    granted = [c for c in proxy.log("GetRecords", SHARD) if c.outcome == "ok"]
    assert refused == proxy.throttled[SHARD] == 30 - len(granted) > 0
    spread = max(proxy.times("GetRecords")) - min(proxy.times("GetRecords"))
    assert 5 <= len(granted) <= 6 + spread * 5
    through.get_records(ShardIterator=starts[OTHER])
    assert proxy.throttled[OTHER] == 0
    wait_for(
        "the shard to be readable again",
        lambda: _readable(through, starts[SHARD]),
    )


def _readable(through, start):
    try:
        through.get_records(ShardIterator=start)
    except ClientError:
        return False
    return True


@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
def test_bytes_over_the_limit_are_refused(stream, proxy, through):
    made = stream()
    made.put(6, size=900_000)
    start = iterator(through, made)
    proxy.limits = True
    read = through.get_records(ShardIterator=start)
    assert proxy.bytes[SHARD] > 5_000_000
    assert (
        code_of(lambda: through.get_records(ShardIterator=read["NextShardIterator"]))
        == "ProvisionedThroughputExceededException"
    )
    assert proxy.throttled == {SHARD: 1}


def test_ten_megabytes_at_once_are_five_seconds_worth():
    allowance = Allowance(0.0)
    assert allowance.grant(0.0)
    allowance.take(10 * MIB)
    assert not allowance.grant(4.9)
    assert allowance.grant(5.0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60))
def test_never_more_than_five_calls_a_second_are_granted(pauses):
    allowance, now, granted = Allowance(0.0), 0.0, []
    for pause in pauses:
        now += pause
        if allowance.grant(now):
            granted.append(now)
    for first in range(len(granted)):
        for last in range(first, len(granted)):
            assert last - first + 1 <= 5 + 5 * (granted[last] - granted[first]) + 1e-3


@given(st.integers(1, 200), st.floats(0.2, 3.0))
def test_who_keeps_to_the_limits_is_never_refused(calls, pause):
    allowance = Allowance(0.0)
    for number in range(calls):
        assert allowance.grant(number * pause)
        allowance.take(int(pause * 2 * MIB))


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 10 * MIB)), max_size=40))
def test_never_more_than_two_mebibytes_a_second_are_read_in_the_long_run(steps):
    allowance, now, total = Allowance(0.0), 0.0, 0
    for pause, size in steps:
        now += pause
        if allowance.grant(now):
            # One second's worth is granted at the start, and the last answer may be a large one.
            assert total <= 2 * MIB * (now + 1) + 2
            allowance.take(size)
            total += size


def test_many_clients_are_served_at_a_time(stream, proxy):
    made = stream(2)
    made.put(50)
    shared = client(proxy.url, attempts=1)
    got = []

    def read():
        got.append(sum(len(read_shard(shared, made.name, s, limit=20)) for s in (SHARD, OTHER)))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert got == [50] * 8
    assert sum(proxy.records.values()) == 400
    assert len(proxy._sockets) <= 2 * 9


def test_writing_and_resharding_go_through(proxy, through, stream):
    made = stream()
    create_stream(through, f"{made.name}-2", 1)
    through.put_record(StreamName=f"{made.name}-2", PartitionKey="a", Data=b"x")
    through.split_shard(
        StreamName=f"{made.name}-2", ShardToSplit=SHARD, NewStartingHashKey=str(2**127)
    )
    assert proxy.calls("SplitShard", SHARD) == 1
    wait_until_active(through, f"{made.name}-2")
    through.delete_stream(StreamName=f"{made.name}-2")
    assert [call.outcome for call in proxy.log("DeleteStream")] == ["ok"]
