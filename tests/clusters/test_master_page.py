"""What the overview of a master tells of drivers and their workers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.standalone import master_page
from dagster_sparkscale.clusters.standalone.submission import MAIN_CLASS


def worker(id: str, host: str = "h1", state: str = "ALIVE") -> dict[str, Any]:
    return {"id": id, "host": host, "state": state, "webuiaddress": f"http://{host}/{id}"}


OVERVIEW = {
    "workers": [worker("w1", state="DEAD"), worker("w2"), worker("w3", "h2")],
    "activedrivers": [
        {"id": "d1", "state": "SUBMITTED", "worker": "None", "mainclass": MAIN_CLASS},
        {"id": "d2", "state": "RUNNING", "worker": "w3", "mainclass": "org.example.Main"},
    ],
    "completeddrivers": [{"id": "d0", "state": "ERROR", "worker": "w1", "mainclass": MAIN_CLASS}],
}


def test_drivers_are_told_of_whether_they_run_or_have_ended() -> None:
    found = master_page.drivers(OVERVIEW)
    assert found["d1"] == master_page.ListedDriver("d1", "SUBMITTED", None, True)
    assert found["d2"] == master_page.ListedDriver("d2", "RUNNING", "w3", False)
    assert found["d0"] == master_page.ListedDriver("d0", "ERROR", "w1", True)


def test_a_driver_whose_worker_is_lost_is_not_known_to_have_ended() -> None:
    assert "ERROR" not in master_page.ENDED


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "state", "worker", "host", "webuiaddress", "workers", "activedrivers"]
            ),
            each,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["workers", "activedrivers", "completeddrivers"]), json))
def test_what_has_another_form_is_passed_over(overview: dict[str, Any]) -> None:
    for each in master_page.drivers(overview).values():
        assert isinstance(each.state, str)
    assert all(isinstance(url, str) for url in master_page.web_uis(overview, "w", "h"))
    assert master_page.host_of(overview, "w") is None or isinstance(
        master_page.host_of(overview, "w"), str
    )


def test_what_a_driver_has_written_is_read_at_its_worker() -> None:
    assert master_page.host_of(OVERVIEW, "w3") == "h2"
    assert master_page.web_uis(OVERVIEW, "w3", "h2") == ["http://h2/w3"]
    beside = {"workers": [worker("w4", "h2"), *OVERVIEW["workers"]]}
    assert master_page.web_uis(beside, "w3", "h2") == ["http://h2/w3"]


def test_where_its_worker_is_gone_it_is_read_at_one_that_is_on_its_host_now() -> None:
    assert master_page.web_uis(OVERVIEW, "w1", "h1") == ["http://h1/w2"]
    assert master_page.web_uis(OVERVIEW, "w0", "h2") == ["http://h2/w3"]
    assert master_page.web_uis(OVERVIEW, "w0", "h3") == []
    assert master_page.web_uis(OVERVIEW, None, None) == []


@pytest.mark.parametrize(
    ("agent", "web_ui", "reached"),
    [
        ("https://worker-7:4711", "http://10.0.0.7:8081", "https://10.0.0.7:4711"),
        ("https://worker-7:4711", "http://[fd00::7]:8081/proxy", "https://[fd00::7]:4711"),
        ("http://0.0.0.0:4711", "https://w7.example.org", "http://w7.example.org:4711"),
    ],
)
def test_an_agent_is_reached_where_its_workers_pages_are(
    agent: str, web_ui: str, reached: str
) -> None:
    assert master_page.reached_at(agent, web_ui) == reached


@given(st.dictionaries(st.sampled_from(["workers", "activedrivers", "completeddrivers"]), json))
def test_a_page_that_is_read_for_many_streams_tells_the_same(overview: dict[str, Any]) -> None:
    page = master_page.Page(overview)
    assert page.drivers == master_page.drivers(overview) == master_page.drivers(page)
    for worker in ("w", "w1", None):
        assert master_page.host_of(page, worker) == master_page.host_of(overview, worker)
        assert master_page.web_uis(page, worker, "h") == master_page.web_uis(overview, worker, "h")


def test_a_page_is_searched_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []
    objects = master_page._objects

    def counted(overview: Any, which: str) -> Any:
        sought.append(which)
        return objects(overview, which)

    monkeypatch.setattr(master_page, "_objects", counted)
    page = master_page.Page(OVERVIEW)
    for _ in range(1000):
        assert set(master_page.drivers(page)) == {"d0", "d1", "d2"}
        assert master_page.host_of(page, "w3") == "h2"
        assert master_page.web_uis(page, "w3", "h2") == ["http://h2/w3"]
    assert sorted(sought) == ["activedrivers", "completeddrivers", "workers", "workers"]
