import pytest

from dev import kinesis
from tests.waiting import HANGS


@pytest.fixture(scope="session", autouse=True)
def no_hurry():
    """An emulator that takes its time to come up is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinesis, "_START_SECONDS", HANGS)
        yield
