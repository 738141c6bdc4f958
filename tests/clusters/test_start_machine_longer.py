"""The state machine of starts, played five times as often as `make test` plays it."""

import pytest
from hypothesis import settings

from tests.clusters import test_start_machine


class Starts(test_start_machine.Starts):
    """A class of its own, as Hypothesis keeps settings by the class."""


TestStarts = pytest.mark.clusters(
    pytest.mark.filterwarnings("ignore:The `__fields__`")(Starts.TestCase)
)
TestStarts.settings = settings(max_examples=1500, stateful_step_count=12, deadline=None)
