"""What is said before receivers are stopped. The rest needs Spark: test_dstreams."""

from dagster_sparkscale.driver.ending.drain import may_lose


def test_what_stopping_receivers_may_cost_is_said_with_what_prevents_it() -> None:
    said = may_lose("2.12.18", False) or ""
    assert said.startswith(
        "with Scala 2.12.18 an executor may end when a receiver on it is stopped"
    )
    assert "spark.streaming.receiver.writeAheadLog.enable=true" in said


def test_it_is_not_said_where_nothing_is_lost() -> None:
    assert may_lose("2.12.18", True) is None
    assert may_lose("2.13.17", False) is None
