"""Alerts over a real connection: what is sent, what its answers mean, and that no secret shows."""

import logging

import dagster as dg
import pytest
import requests

from dagster_sparkscale import DeclarationError
from dagster_sparkscale.watch.alerts import webhooks
from dagster_sparkscale.watch.alerts.alerts import Alert, Outcome
from dagster_sparkscale.watch.alerts.webhooks import SlackWebhook, Webhook
from dagster_sparkscale.watch.fleet.news import Occurrence
from tests.watch.hook_server import SECRET, free_port, serving

ONE = Occurrence("clicks", "failed", 1_000_000.0, "exit <code> & 1", "/assets/clicks")
ALERT = Alert("problem", ONE, 1_000_060.0)


@pytest.fixture
def server():
    with serving() as server:
        yield server


def test_the_json_of_a_webhook(server):
    sent = Webhook(server.url, dagster_url="https://dagster.example.com/").send(ALERT, dropped=2)
    assert sent.outcome is Outcome.TAKEN
    assert server.got == [
        {
            "id": "clicks/failed/1000000.000/problem",
            "status": "problem",
            "stream": "clicks",
            "problem": "failed",
            "since": "1970-01-12T13:46:40Z",
            "at": "1970-01-12T13:47:40Z",
            "text": "clicks has failed: exit <code> & 1",
            "link": "https://dagster.example.com/assets/clicks",
            "dropped_before": 2,
        }
    ]
    assert server.headers[0]["Content-Type"] == "application/json"


def test_the_json_for_slack(server):
    webhook = SlackWebhook(server.url, dagster_url="https://dagster.example.com")
    webhook.send(ALERT)
    webhook.send(Alert("resolved", ONE, 1_000_060.0), dropped=3)
    assert server.got == [
        {
            "text": ":rotating_light: clicks has failed: exit &lt;code&gt; &amp; 1 "
            "<https://dagster.example.com/assets/clicks|Open in Dagster>"
        },
        {
            "text": ":white_check_mark: clicks: resolved after 60 s; it had failed "
            "<https://dagster.example.com/assets/clicks|Open in Dagster>"
            " (3 alerts before this one could not be delivered)"
        },
    ]


def test_without_the_ui_s_address_there_is_no_link(server):
    Webhook(server.url).send(ALERT)
    SlackWebhook(server.url).send(ALERT)
    assert server.got[0]["link"] is None
    assert "Open in" not in server.got[1]["text"]


def test_a_payload_and_headers_of_ones_own(server, monkeypatch):
    class Pager(Webhook):
        def payload(self, alert, dropped):
            return {"summary": str(alert)}

    monkeypatch.setenv("PAGER_TOKEN", "hunter2")
    Pager(server.url, headers={"Authorization": dg.EnvVar("PAGER_TOKEN")}).send(ALERT)
    assert server.got == [{"summary": "clicks has failed: exit <code> & 1"}]
    assert server.headers[0]["Authorization"] == "hunter2"


@pytest.fixture
def netrc(tmp_path, monkeypatch):
    """A .netrc that knows a password for the server's host."""
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(path))


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer hunter2"}])
def test_only_what_was_given_is_sent_to_identify_with(server, headers):
    assert Webhook(server.url, headers).send(ALERT).outcome is Outcome.TAKEN
    assert server.headers[0].get("Authorization") == headers.get("Authorization")


@pytest.mark.usefixtures("netrc")
def test_a_user_and_password_in_the_address_are_sent(server):
    Webhook(server.url.replace("http://", "http://clicks:hunter2@")).send(ALERT)
    assert server.headers[0]["Authorization"] == "Basic Y2xpY2tzOmh1bnRlcjI="


@pytest.mark.parametrize(
    ("code", "outcome", "why"),
    [
        *((200, Outcome.TAKEN, ""), (202, Outcome.TAKEN, ""), (204, Outcome.TAKEN, "")),
        (500, Outcome.UNANSWERED, "the address answers 500"),
        (503, Outcome.UNANSWERED, "the address answers 503"),
        (429, Outcome.UNANSWERED, "the address answers 429"),
        (408, Outcome.UNANSWERED, "the address answers 408"),
        (404, Outcome.REFUSED, "the address answers 404"),
        (403, Outcome.REFUSED, "the address answers 403"),
    ],
)
def test_what_its_answer_means(server, code, outcome, why):
    server.answers = [code]
    sent = Webhook(server.url).send(ALERT)
    assert (sent.outcome, sent.why) == (outcome, why)


def test_it_is_not_followed_elsewhere(server):
    server.answers, server.location = [307], server.url
    sent = Webhook(server.url).send(ALERT)
    assert sent.outcome is Outcome.REFUSED
    assert (
        sent.why == "the address answers 307, which leads elsewhere: give the address it leads to"
    )
    assert not server.got


def test_nobody_there():
    sent = Webhook(f"http://127.0.0.1:{free_port()}/{SECRET}").send(ALERT)
    assert sent.outcome is Outcome.UNANSWERED
    assert sent.why == "no connection: nobody is there, or its name is not known"


def test_no_answer(server, monkeypatch):
    server.hangs.clear()
    monkeypatch.setattr(webhooks, "ANSWER", 0.05)
    sent = Webhook(server.url).send(ALERT)
    assert (sent.outcome, sent.why) == (Outcome.UNANSWERED, "no answer within 0.05 s")


def test_whatever_it_hangs_on_a_tick_goes_on(server, monkeypatch):
    server.hangs.clear()
    monkeypatch.setattr(webhooks, "LONGEST", 0.05)
    sent = Webhook(server.url).send(ALERT)
    assert (sent.outcome, sent.why) == (Outcome.UNANSWERED, "no answer within 0.05 s")


def test_one_at_a_time_though_it_hangs(server, monkeypatch):
    """As where an answer drips, of which each drop is in time."""
    server.hangs.clear()
    monkeypatch.setattr(webhooks, "LONGEST", 0.05)
    webhook = Webhook(server.url)
    assert webhook.send(ALERT).why == "no answer within 0.05 s"
    for _ in range(3):
        sent = webhook.send(ALERT)
        assert (sent.outcome, sent.why) == (Outcome.UNANSWERED, "the one before still hangs")
    other = Webhook(server.url)
    assert other.send(ALERT).why == "no answer within 0.05 s"
    server.hangs.set()
    for thread in (*webhook._hanging, *other._hanging):
        thread.join(30)
    monkeypatch.undo()
    assert webhook.send(ALERT).outcome is Outcome.TAKEN
    assert len(server.got) == 3


def test_what_a_program_said_may_be_left_out(server):
    class Pager(Webhook):
        def payload(self, alert, dropped):
            return {"text": f"{alert} {alert.occurrence.text}"}

    for kind in (Webhook, SlackWebhook, Pager):
        kind(server.url, texts=False).send(ALERT)
    assert [one["text"] for one in server.got] == [
        "clicks has failed",
        ":rotating_light: clicks has failed",
        "clicks has failed ",
    ]


def test_no_tls_where_it_is_wanted(server):
    sent = Webhook(server.url.replace("http:", "https:")).send(ALERT)
    assert sent.outcome is Outcome.UNANSWERED
    assert sent.why == "the certificate of the address is not accepted"


class TestTheEnvironment:
    def test_has_the_address_when_an_alert_is_sent(self, server, monkeypatch):
        webhook = Webhook(dg.EnvVar("ALERTS_URL"))
        monkeypatch.setenv("ALERTS_URL", server.url)
        assert webhook.send(ALERT).outcome is Outcome.TAKEN

    def test_a_value_may_end_in_a_newline_as_that_of_a_file_does(self, server, monkeypatch):
        monkeypatch.setenv("ALERTS_URL", server.url + "\n")
        monkeypatch.setenv("TOKEN", " hunter2 \n")
        webhook = Webhook(dg.EnvVar("ALERTS_URL"), {"Authorization": dg.EnvVar("TOKEN")})
        assert webhook.send(ALERT).outcome is Outcome.TAKEN
        assert server.paths == [server.url.partition(str(server.server_port))[2]]
        assert server.headers[0]["Authorization"] == "hunter2"

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            (None, "environment variable ALERTS_URL is not set"),
            ("", "environment variable ALERTS_URL is not set"),
            (" \n", "environment variable ALERTS_URL is not set"),
            (
                "https://x.y/a hunter2",
                "environment variable ALERTS_URL has no http or https address in it",
            ),
            ("hunter2", "environment variable ALERTS_URL has no http or https address in it"),
            ("ftp://hunter2", "environment variable ALERTS_URL has no http or https address in it"),
        ],
    )
    def test_without_it_alerts_wait(self, monkeypatch, value, why):
        if value is None:
            monkeypatch.delenv("ALERTS_URL", raising=False)
        else:
            monkeypatch.setenv("ALERTS_URL", value)
        sent = Webhook(dg.EnvVar("ALERTS_URL")).send(ALERT)
        assert (sent.outcome, sent.why) == (Outcome.UNANSWERED, why)


@pytest.mark.parametrize(
    "url",
    [
        *("hunter2", "ftp://hunter2/x", "http:///hunter2", "http://[hunter2", 5),
        *("https://x.y/hunter2\n", " https://x.y/hunter2", "https://x.y/hunter2 x"),
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(url):
    with pytest.raises(DeclarationError, match="must begin with https://") as refused:
        Webhook(url)
    assert "hunter2" not in str(refused.value)


def test_a_ui_that_is_no_address_is_refused():
    with pytest.raises(DeclarationError, match="dagster_url = 'dagster': must begin"):
        Webhook("https://x.example.com", dagster_url="dagster")


def test_a_payload_that_fails_is_an_alert_that_is_dropped_and_no_error_of_the_tick(server):
    class Broken(Webhook):
        def payload(self, alert, dropped):
            return {"at": object()}

    sent = Broken(server.url).send(ALERT)
    assert sent.outcome is Outcome.REFUSED
    assert sent.why.startswith("Broken.payload failed: TypeError(")


def test_no_secret_shows_whatever_happens(server, caplog, capfd, monkeypatch):
    monkeypatch.setenv("ODD", "hunter2\nx")
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="urllib3")
    good = Webhook(server.url, headers={"Authorization": "hunter2"})
    nowhere = Webhook(f"http://127.0.0.1:{free_port()}/{SECRET}")
    odd = Webhook(f"http://127.0.0.1:99999/{SECRET}", headers={"X": dg.EnvVar("ODD")})
    said = [repr(each) for each in (good, nowhere, odd)]
    server.answers = [200, 500, 404]
    said += [good.send(ALERT).why for _ in range(3)]
    said += [nowhere.send(ALERT).why, odd.send(ALERT).why]
    shown = "".join([*said, caplog.text, *capfd.readouterr()])
    assert "answers 404" in shown
    assert "hunter2" not in shown


def test_no_secret_shows_where_an_answer_has_a_line_that_is_no_header(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.malformed = b"this is no header"
    assert Webhook(server.url).send(ALERT).outcome is Outcome.TAKEN
    assert "hunter2" not in caplog.text
    requests.post(server.url, json={}, timeout=60)
    assert "hunter2" in caplog.text  # whoever else asks is still warned, with the whole address


@pytest.mark.parametrize("made", [Webhook, SlackWebhook])
@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"headers": "hunter2"}, "headers: must be a dict, such as "),
        ({"headers": None}, "headers: must be a dict, such as "),
        ({"headers": {"X: hunter2": "y"}}, "headers: a name is none of a header (it is not shown"),
        ({"headers": {1: "hunter2"}}, "headers: a name is none of a header (it is not shown"),
        ({"headers": {"X": 5}}, "headers['X']: its value (not shown, for it may be a secret) must"),
        ({"headers": {"X": "hunter2\n"}}, "headers['X']: its value (not shown, for it may be a "),
        ({"texts": "no"}, "texts = 'no': must be True or False"),
        ({"dagster_url": None}, "dagster_url = None: must begin with https:// or http://"),
        ({"dagster_url": dg.EnvVar("URL")}, "dagster_url: an EnvVar is not looked up here; give "),
        ({"url": None}, "url: no address (it is not shown"),
        ({"url": "hunter2"}, "url: no address (it is not shown"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_given(made, given, fault):
    with pytest.raises(DeclarationError) as refused:
        made(**{"url": "https://example.com/x"} | given)
    assert str(refused.value).startswith(fault)
    assert "hunter2" not in str(refused.value)


def test_a_link_keeps_the_prefix_that_the_webserver_runs_under():
    for url in ("https://example.com/dagster", "https://example.com/dagster/"):
        webhook = Webhook("https://example.com/x", dagster_url=url)
        assert webhook.link(ALERT) == "https://example.com/dagster/assets/clicks"
