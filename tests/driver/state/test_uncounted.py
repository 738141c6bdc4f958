"""Without the private parts of Spark that it takes, state is read and rewritten all the same."""

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.state.uncounted import uncounted


def test_where_no_session_can_be_made_it_is_the_querys_own(
    capfd: pytest.CaptureFixture[str],
) -> None:
    query: Any = SimpleNamespace(_sc=None, _jsparkSession=SimpleNamespace())
    assert uncounted(query) is query
    assert "rows of state are counted while it is rewritten" in "".join(capfd.readouterr())
