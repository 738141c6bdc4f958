"""What pods of the tests' Kubernetes cluster find in their files."""

import threading
from pathlib import Path

from dev.kubernetes.prepare import rewrite


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
