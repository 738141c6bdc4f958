"""Every fault of Kubernetes itself."""

from pathlib import Path

import pytest

from dev.kubernetes.running import Cluster
from tests.faults.real import on_kubernetes
from tests.faults.real.watched import Record

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


@pytest.mark.parametrize("name", on_kubernetes.PLAYS)
def test_on_kubernetes(
    kubernetes: Cluster, name: str, tmp_path: Path, record_property: Record
) -> None:
    on_kubernetes.play(kubernetes, name, tmp_path, record_property)
