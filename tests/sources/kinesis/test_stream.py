"""That the workload helper puts what it says, and sees what is wrong with what came out."""

import base64
import itertools

import pytest
from aws_kinesis_agg.deaggregator import deaggregate_records
from hypothesis import given
from hypothesis import strategies as st

from dev.kinesis import client
from tests.sources.kinesis.delivered import differences, payload, row
from tests.sources.kinesis.reading import read_shard, read_stream
from tests.sources.kinesis.stream import KEYS, PutFailed, Stream, hash_key
from tests.waiting import wait_for

FIRST = "shardId-000000000000"


def rows(records):
    return [row(record["Data"]) for record in records]


def test_records_come_back_as_they_were_put(stream):
    made = stream(2)
    made.put(703)
    made.put(100, keys=["other"], size=300)
    assert made.total == 803
    assert made.sent["other"] == 100
    records = read_stream(made)
    made.assert_complete(rows(records))
    assert {len(r["Data"]) for r in records if r["PartitionKey"] == "other"} == {300}


def test_keys_lie_where_their_hash_says(stream):
    made = stream(3)
    made.put(len(KEYS))
    for shard in made.open_shards():
        for key, _ in rows(read_shard(made.client, made.name, shard.id)):
            assert shard.start <= hash_key(key) <= shard.end


# kinesis-mock takes more than a second for each of them.
@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
def test_calls_of_large_records_stay_within_what_one_call_may_hold(stream):
    made = stream()
    made.put(6, size=900_000)
    assert len(read_stream(made)) == 6


def test_a_split_in_midst_loses_nothing(stream):
    made = stream(2)
    children = []
    made.put_around(400, lambda: children.extend(made.split(FIRST)))
    shards = {shard.id: shard for shard in made.shards()}
    assert len(shards) == 4
    assert not shards[FIRST].open
    lower, upper = (shards[child] for child in children)
    assert lower.parents == upper.parents == (FIRST,)
    assert (lower.start, upper.end) == (shards[FIRST].start, shards[FIRST].end)
    assert lower.end + 1 == upper.start
    assert rows(read_shard(made.client, made.name, FIRST))
    made.assert_complete(rows(read_stream(made)))


def test_a_merge_in_midst_loses_nothing(stream):
    made = stream(2)
    first, second = (shard.id for shard in made.open_shards())
    made.put_around(400, lambda: made.merge(second, first))
    (child,) = made.open_shards()
    assert set(child.parents) == {first, second}
    assert len(rows(read_shard(made.client, made.name, child.id))) == 200
    made.assert_complete(rows(read_stream(made)))


def test_shards_that_are_not_open_or_apart_are_refused(stream):
    made = stream(3)
    first, _, third = (shard.id for shard in made.open_shards())
    with pytest.raises(ValueError, match="side by side"):
        made.merge(first, third)
    made.split(first)
    with pytest.raises(ValueError, match=f"{first!r} .* is not open"):
        made.split(first)


@pytest.mark.parametrize("aggregated", [False, True], ids=["plain", "aggregated"])
def test_a_stream_is_resharded_under_a_writer(stream, aggregated):
    made = stream(2)
    with made.writing(rate=400, aggregated=aggregated):
        wait_for("some records", lambda: made.total > 30, every=0.02)
        _, upper = made.split(FIRST)
        before = made.total
        wait_for("more records", lambda: made.total > before + 30, every=0.02)
        made.merge(upper, made.open_shards()[2].id)
        before = made.total
        wait_for("more records", lambda: made.total > before + 30, every=0.02)
    records = read_stream(made)
    made.assert_complete(rows(apart(records) if aggregated else records))


def apart(records):
    """Aggregated records as what was put into them; others as they are."""
    as_lambda_gets_them = [
        {
            "kinesis": {
                "kinesisSchemaVersion": "1.0",
                "partitionKey": record["PartitionKey"],
                "sequenceNumber": record["SequenceNumber"],
                "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"],
                "data": base64.b64encode(record["Data"]).decode(),
            }
        }
        for record in records
    ]
    users = [user["kinesis"] for user in deaggregate_records(as_lambda_gets_them)]
    return [
        {"Data": base64.b64decode(user["data"]), "PartitionKey": user["partitionKey"]}
        for user in users
    ]


def test_aggregated_records_come_back_in_their_shards(stream):
    made = stream(3)
    made.put(100)
    assert made.put_aggregated(1000, each=80) < 30
    made.put(100)
    records = read_stream(made)
    assert len(records) < 230
    made.assert_complete(rows(apart(records)))
    for shard in made.open_shards():
        for record in apart(read_shard(made.client, made.name, shard.id)):
            assert shard.start <= hash_key(record["PartitionKey"]) <= shard.end


@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
def test_an_aggregate_that_would_be_too_large_is_refused(stream):
    with pytest.raises(ValueError, match="over 1 MiB"):
        stream().put_aggregated(40, keys=["one"], size=50_000, each=40)


def test_a_writer_that_fails_says_so_at_the_end(proxy, stream):
    made = stream()
    made = Stream(client(proxy.url, attempts=1), made.name)
    proxy.fail("PutRecords", "AccessDeniedException")
    with (
        pytest.raises(PutFailed, match="AccessDeniedException"),
        made.writing(rate=1000),
    ):
        wait_for("the failing call", lambda: proxy.calls("PutRecords"), every=0.02)


def test_what_the_service_turns_away_for_a_while_is_put_again(proxy, stream):
    made = stream()
    made = Stream(client(proxy.url, attempts=1), made.name)
    rule = proxy.fail("PutRecords", "LimitExceededException", times=2)
    made.put(50)
    assert rule.left == 0
    made.assert_complete(rows(read_stream(made)))


class Picky:
    """A client that has the emulator refuse some records of a PutRecords call."""

    def __init__(self, real, refuse):
        self.real = real
        self.refuse = refuse

    def put_records(self, *, StreamName, Records):
        refused = [at in self.refuse for at in range(len(Records))]
        taken = [r for r, no in zip(Records, refused, strict=True) if not no]
        answers = iter(self.real.put_records(StreamName=StreamName, Records=taken)["Records"])
        return {
            "FailedRecordCount": sum(refused),
            "Records": [
                {"ErrorCode": "ProvisionedThroughputExceededException"} if no else next(answers)
                for no in refused
            ],
        }

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_records_refused_out_of_the_middle_of_a_call_are_known_to_come_later(stream):
    made = stream()
    made.client = Picky(made.client, refuse={3, 4, 17})
    made.put(30, keys=["a", "b"])
    got = rows(read_stream(made))
    assert len(got) == 30
    assert got != sorted(got, key=lambda each: each[1])
    made.assert_complete(got)


def test_nothing_is_put_twice_when_no_answer_came(proxy, stream):
    made = stream()
    through = Stream(client(proxy.url, attempts=1), made.name)
    proxy.cut("PutRecords")
    with pytest.raises(PutFailed, match="without Records"):
        through.put(10)
    assert proxy.calls("PutRecords") == 1
    assert through.total == 0


# What is delivered, compared with what was put.

PUT = {"a": [0, 1, 2, 3], "b": [0, 2, 1]}
GOOD = [("b", 0), ("a", 0), ("a", 1), ("b", 2), ("a", 2), ("b", 1), ("a", 3)]


def test_any_interleaving_that_keeps_the_order_of_keys_is_right():
    for order in set(itertools.permutations("aaaabbb")):
        taken = {key: iter(numbers) for key, numbers in PUT.items()}
        assert differences(PUT, [(key, next(taken[key])) for key in order]) == []


@given(st.integers(0, len(GOOD) - 1))
def test_every_loss_is_seen(at):
    missing = GOOD[:at] + GOOD[at + 1 :]
    for duplicates in (False, True):
        (wrong,) = differences(PUT, missing, duplicates=duplicates)
        assert f"key {GOOD[at][0]!r}" in wrong
        assert f"lost: {GOOD[at][1]}" in wrong


@given(st.integers(0, len(GOOD) - 1), st.integers(0, len(GOOD)))
def test_every_duplicate_is_seen_and_forgiven_only_where_it_may_be(of, at):
    twice = [*GOOD[:at], GOOD[of], *GOOD[at:]]
    assert any("more than once" in wrong for wrong in differences(PUT, twice))
    if at > of:
        assert differences(PUT, twice, duplicates=True) == []


@given(st.permutations(GOOD))
def test_every_change_of_order_within_a_key_is_seen(shuffled):
    same = all(
        [number for k, number in shuffled if k == key] == numbers for key, numbers in PUT.items()
    )
    assert (differences(PUT, shuffled) == []) == same
    assert differences(PUT, shuffled, in_order=False) == []


def test_records_nobody_has_put_are_seen():
    assert differences(PUT, [*GOOD, ("c", 0)]) == ["key 'c': 1 never put: 0"]
    assert differences(PUT, [*GOOD, ("a", 4)], duplicates=True) == ["key 'a': 1 never put: 4"]


@given(st.text(max_size=20), st.integers(0, 10**9), st.integers(0, 200))
def test_a_payload_holds_key_and_number_at_any_size(key, number, size):
    data = payload(key, number, size)
    assert row(data) == (key, number)
    assert len(data) >= size
