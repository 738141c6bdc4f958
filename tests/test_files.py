"""The search for files among processes that are at work."""

import shutil
from pathlib import Path

from tests.files import below


def test_folders_that_vanish_meanwhile_are_passed_over(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").touch()
        (tmp_path / name / "other").touch()
    assert {path.parent.name for path in below(tmp_path, "token")} == set("abc")
    assert len(list(below(tmp_path))) == 6
    seen = below(tmp_path, "tok*")
    first = next(seen).parent
    for name in set("abc") - {first.name}:
        shutil.rmtree(tmp_path / name)
    assert list(seen) == []
