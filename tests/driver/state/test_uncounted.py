"""Without the private parts of Spark that it takes, state is read and rewritten all the same."""

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.uncounted import COUNTED, uncounted


@pytest.fixture
def clone() -> Any:
    settings: dict[str, str] = {}
    conf = SimpleNamespace(set=settings.__setitem__)
    made = SimpleNamespace(conf=lambda: conf, settings=settings)
    return SimpleNamespace(cloneSession=lambda: made, made=made)


def test_where_no_session_can_be_made_it_is_the_querys_own(
    capfd: pytest.CaptureFixture[str],
) -> None:
    query: Any = SimpleNamespace(_sc=None, _jsparkSession=SimpleNamespace())
    assert uncounted(query, "1") is query
    assert "rows of state are counted while it is rewritten" in "".join(capfd.readouterr())


def test_whatever_a_later_session_keeps_for_itself_is_in_it(clone: Any) -> None:
    class Session:
        def __init__(self) -> None:
            self._jsparkSession, self._later, self.conf = clone, "something", "the query's"

        @cached_property
        def _checkpoints(self) -> str:
            return "those of the query's own session"

    query = Session()
    assert query._checkpoints
    made: Any = uncounted(query, "2")
    assert (made._later, made._jsparkSession) == ("something", clone.made)
    assert not {"conf", "_checkpoints"} & vars(made).keys()
    assert clone.made.settings == {COUNTED: "false", layout.FORMAT: "2"}
