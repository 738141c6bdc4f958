"""What pods of the tests' Kubernetes cluster find in their files."""

import threading
from pathlib import Path
from typing import Any

import pytest

from dev.kubernetes.prepare import rewrite
from dev.kubernetes.volumes import Missing, Sources


def test_who_reads_a_file_that_is_rewritten_finds_one_of_both(tmp_path: Path) -> None:
    file, over = tmp_path / "hosts", threading.Event()
    few = "127.0.0.1 localhost\n127.77.0.1 driver\n"
    many = few + "127.77.0.2 other\n" * 50
    rewrite(file, few)

    def write() -> None:
        while not over.is_set():
            rewrite(file, many)
            rewrite(file, few)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        read = {file.read_text()[: len(few)] for _ in range(5000)}
    finally:
        over.set()
        writing.join()
    assert read == {few}
    assert file.read_text() == few


class Held:
    """An API server with these objects, by path."""

    def __init__(self, **objects: Any) -> None:
        self._objects = {path.replace("__", "/"): each for path, each in objects.items()}

    def get(self, path: str) -> Any:
        return self._objects.get(path.removeprefix("/api/v1/"))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        ({"spec": {}, "status": {"phase": "Pending"}}, 'persistentvolumeclaim "c" is not bound'),
    ],
)
def test_a_volume_that_is_not_there_yet_is_missing(claim: Any, said: str) -> None:
    api: Any = Held(namespaces__s__persistentvolumeclaims__c=claim)
    with pytest.raises(Missing, match=said):
        Sources(api, {"metadata": {"namespace": "s"}}, "").claimed("c")


def test_a_claim_is_the_folder_of_its_volume() -> None:
    claim = {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    volume = {"spec": {"hostPath": {"path": "/data"}}}
    api: Any = Held(namespaces__s__persistentvolumeclaims__c=claim, persistentvolumes__v=volume)
    assert Sources(api, {"metadata": {"namespace": "s"}}, "").claimed("c") == Path("/data")
