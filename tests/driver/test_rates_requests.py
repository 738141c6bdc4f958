"""The requests that set live limits."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.observe.status import Status
from tests.driver.limiting import BAD, RATE, RECORDS, SPAN, written
from tests.driver.serving import agent_of, ask, client_of, options, serving


class TestRequests:
    """Over the real server."""

    @pytest.fixture
    def client(self, rates: Rates) -> Iterator[http.client.HTTPConnection]:
        with serving(agent_of(options(), rates), lambda graceful, seconds: None) as server:
            connection = client_of(server)
            yield connection
            connection.close()

    def put(self, client: http.client.HTTPConnection, rates: Any, epoch: Any = 4) -> Any:
        return ask(client, "PUT", "/v1/rates", {"epoch": epoch, "rates": rates})

    def test_limits_are_set_and_shown_before_spark_is_there(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        assert ask(client, "GET", "/v1/status")[1]["rates"] == {}
        code, answer = self.put(client, {"clicks": {RECORDS: 9, SPAN: 0.5}})
        assert (code, answer["batches"]) == (200, [])
        assert answer["rates"] == written(rates) == {"clicks": {RECORDS: 9, SPAN: 0.5}}
        shown = ask(client, "GET", "/v1/status")[1]
        assert shown["rates"] == {"clicks": {RECORDS: 9, SPAN: 0.5}}
        assert Status.from_json(json.dumps(shown)).rates == shown["rates"]

    def test_a_request_may_state_all_that_is_to_be(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        self.put(client, {"clicks": {RECORDS: 9}, "orders": {SPAN: 0.5}})
        body = {"epoch": 4, "rates": {"clicks": {RATE: 9}}, "absolute": True}
        code, answer = ask(client, "PUT", "/v1/rates", body)
        assert (code, answer["rates"]) == (200, {"clicks": {RATE: 9}})
        code, answer = ask(client, "PUT", "/v1/rates", {**body, "absolute": "yes"})
        assert (code, answer["error"]) == (400, 'absolute: "yes": must be true or false')

    @pytest.mark.parametrize(
        ("epoch", "code", "field"),
        [(3, 409, "epoch: 3"), (5, 409, "epoch: 5"), ("4", 400, "epoch"), (None, 400, "epoch")],
    )
    def test_another_epoch_is_refused(
        self,
        client: http.client.HTTPConnection,
        rates: Rates,
        epoch: Any,
        code: int,
        field: str,
    ) -> None:
        answered, answer = self.put(client, {"clicks": {RECORDS: 9}}, epoch)
        assert answered == code
        assert answer["error"].startswith(field)
        assert answer.get("epoch") == (4 if code == 409 else None)
        assert written(rates) == {}

    @pytest.mark.parametrize(("wanted", "text"), BAD)
    def test_what_makes_no_sense_is_refused_in_words(
        self, client: http.client.HTTPConnection, wanted: Any, text: str
    ) -> None:
        assert self.put(client, wanted) == (400, {"error": text})
        assert ask(client, "GET", "/v1/status")[0] == 200  # on the same connection

    def test_a_file_that_cannot_be_written_is_said(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        rates.close()
        code, answer = self.put(client, {"clicks": {RECORDS: 9}})
        assert code == 503
        assert answer["error"].startswith("rates: they cannot be written: ")
        assert ask(client, "GET", "/v1/status")[1]["rates"] == {}

    def test_without_the_token_nothing_is_set(
        self, client: http.client.HTTPConnection, rates: Rates
    ) -> None:
        body = {"epoch": 4, "rates": {"clicks": {RECORDS: 9}}}
        assert ask(client, "PUT", "/v1/rates", body, token="wrong")[0] == 401
        assert written(rates) == {}
