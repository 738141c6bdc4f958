"""A query, played on the disk."""

import pytest

from tests.driver.state.beside.scene import Scene


@pytest.fixture(params=[True, False], ids=["of this host", "elsewhere"])
def scene(tmp_path, monkeypatch, request) -> Scene:
    """A query whose checkpoint is in a folder of this host, and one whose is on another file
    system."""
    return Scene(tmp_path / "checkpoint", monkeypatch, "stateStoreSave", here=request.param)
