"""The file that live limits are read from."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.backpressure.rates import MAX_SOURCES, Rates
from dagster_sparkscale.driver.settings import RATES_FILE
from tests.driver.limiting import RATE, RECORDS, written


def test_there_is_an_empty_file_from_the_start_for_its_user_only(rates: Rates) -> None:
    assert rates.file is not None
    assert os.environ[RATES_FILE] == str(rates.file)
    assert written(rates) == rates.current() == {}
    for path, mode in ((rates.file, 0o600), (rates.file.parent, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    rates.change({"clicks": {RECORDS: 1}})
    assert stat.S_IMODE(rates.file.stat().st_mode) == 0o600
    assert os.listdir(rates.file.parent) == [rates.file.name]


def test_what_is_set_is_told_while_a_disk_holds_the_file_up(rates: Rates) -> None:
    writes, goes_on = threading.Event(), threading.Event()

    def in_force(limits: Any) -> Any:
        writes.set()
        assert goes_on.wait(30)
        return limits

    rates.change({"clicks": {RECORDS: 1}})
    rates._in_force = in_force
    writer = threading.Thread(target=rates.keep)
    writer.start()
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(rates.current()))
    try:
        assert writes.wait(30)
        reader.start()
        reader.join(10)
        assert found == [{"clicks": {RECORDS: 1}}]
    finally:
        goes_on.set()
        writer.join()
        reader.join()


def test_nothing_is_left_of_it(rates: Rates) -> None:
    assert rates.file is not None
    rates.close()
    rates.close()
    assert not rates.file.parent.exists()


def test_in_a_folder_that_is_given_it_is_all_that_goes(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    rates = Rates.prepare(tmp_path)
    assert rates.file == tmp_path / "rates.json"
    assert os.environ[RATES_FILE] == str(rates.file)
    assert stat.S_IMODE(rates.file.stat().st_mode) == 0o600
    rates.change({"clicks": {RECORDS: 1}})
    assert written(rates) == {"clicks": {RECORDS: 1}}
    rates.close()
    assert os.listdir(tmp_path) == ["token"]


def test_a_relative_folder_is_named_so_that_everybody_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Rates.prepare(Path("."))
    assert os.environ[RATES_FILE] == str(tmp_path / "rates.json")


@pytest.mark.parametrize("cleaned", ["file", "folder"])
def test_what_was_cleaned_away_is_written_again(
    rates: Rates, cleaned: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert rates.file is not None
    rates.change({"clicks": {RECORDS: 1}})
    rates.keep()
    assert "has been written again" not in "".join(capfd.readouterr())
    rates.file.unlink()
    if cleaned == "folder":
        rates.file.parent.rmdir()
    rates.keep()
    assert written(rates) == rates.current() == {"clicks": {RECORDS: 1}}
    assert stat.S_IMODE(rates.file.parent.stat().st_mode) == 0o700
    assert "was gone: it has been written again" in "".join(capfd.readouterr())


def test_a_folder_that_was_cleaned_away_does_not_keep_limits_from_being_set(rates: Rates) -> None:
    assert rates.file is not None
    rates.file.unlink()
    rates.file.parent.rmdir()
    rates.change({"clicks": {RECORDS: 1}})
    assert written(rates) == {"clicks": {RECORDS: 1}}


def test_while_the_file_is_gone_no_limit_is_told_to_be_in_force(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    rates = Rates.prepare(tmp_path / "folder")
    rates.change({"clicks": {RECORDS: 1}})
    (tmp_path / "folder").rename(tmp_path / "moved")
    with pytest.raises(OSError, match="No such file"):
        rates.keep()
    assert rates.current() == {}
    (tmp_path / "moved" / "rates.json").unlink()
    (tmp_path / "moved").rename(tmp_path / "folder")
    rates.keep()
    assert written(rates) == rates.current() == {"clicks": {RECORDS: 1}}


def test_what_others_have_put_in_the_place_of_its_folder_is_not_written_to(
    rates: Rates, tmp_path: Path
) -> None:
    assert rates.file is not None
    rates.file.unlink()
    rates.file.parent.rmdir()
    rates.file.parent.symlink_to(tmp_path)
    with pytest.raises(OSError, match="is not this user's folder any more"):
        rates.keep()
    assert os.listdir(tmp_path) == []
    rates.file.parent.unlink()


def test_once_it_has_ended_it_is_not_written_again(rates: Rates) -> None:
    assert rates.file is not None
    rates.close()
    rates.keep()
    assert not rates.file.exists()


def in_capitals(limits: Any) -> Any:
    return {source.upper(): dict(has) for source, has in limits.items()}


def test_the_file_holds_what_is_made_of_the_limits_that_are_set(rates: Rates) -> None:
    rates.begin({"clicks": {RECORDS: 5}}, in_capitals)
    assert written(rates) == {"CLICKS": {RECORDS: 5}}
    assert rates.current() == {"clicks": {RECORDS: 5}}
    rates.change({"clicks": {RECORDS: 6}})
    assert written(rates) == {"CLICKS": {RECORDS: 6}}


def test_the_file_is_written_again_when_something_else_is_in_force(rates: Rates) -> None:
    now = {"clicks": {RECORDS: 5}}
    rates.begin({}, lambda _: dict(now))
    assert rates.file is not None
    before = rates.file.stat().st_ino
    rates.keep()
    assert rates.file.stat().st_ino == before, "nothing has changed"
    now["clicks"] = {RECORDS: 6}
    rates.keep()
    assert written(rates) == {"clicks": {RECORDS: 6}}


def test_limits_that_could_not_be_written_are_in_force_nowhere(rates: Rates) -> None:
    seen: list[Any] = []

    def note(limits: Any) -> Any:
        seen.append(limits)
        return limits

    rates.begin({"clicks": {RECORDS: 1}}, note)
    rates.close()
    with pytest.raises(OSError, match="No such file"):
        rates.change({"clicks": {RECORDS: 2}})
    assert seen[-1] == {"clicks": {RECORDS: 1}}


def test_a_file_that_cannot_be_written_leaves_the_limits_as_they_were(rates: Rates) -> None:
    rates.change({"clicks": {RECORDS: 1}})
    rates.close()
    with pytest.raises(OSError, match="No such file"):
        rates.change({"clicks": {RECORDS: 2}})
    assert rates.current() == {"clicks": {RECORDS: 1}}


def test_without_room_for_the_file_the_driver_runs_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(RATES_FILE, "of-another-driver")
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(tmp_path / "none"))
        rates = Rates.prepare()
    assert RATES_FILE not in os.environ
    assert "sources cannot be given live limits" in "".join(capfd.readouterr())
    with pytest.raises(OSError, match="no file for the limits"):
        rates.change({"clicks": {RECORDS: 2}})
    rates.change({"receiver-0": {RATE: 2}})  # they look nothing up
    assert rates.current() == {"receiver-0": {RATE: 2}}


def test_a_reader_never_sees_half_a_file(rates: Rates) -> None:
    def write() -> None:
        for _ in range(50):
            rates.change({f"s{n}": {RECORDS: n + 1} for n in range(MAX_SOURCES)})
            rates.change({f"s{n}": None for n in range(MAX_SOURCES)})

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert len(written(rates)) in (0, MAX_SOURCES)
    writer.join()
    assert written(rates) == {}
