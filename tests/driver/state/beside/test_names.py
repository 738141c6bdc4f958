"""The files that RocksDB's provider keeps state in, by their names."""

import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state.beside import names
from dagster_sparkscale.driver.state.beside.names import NotKnown, Versions


def snapshot(told: object) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("metadata", told if isinstance(told, str) else f"v1\n{json.dumps(told)}")
        file.writestr("CURRENT", "MANIFEST-000005\n")
    return packed.getvalue()


def test_checksums_belong_to_their_file():
    every = names.with_checksums("3.zip")
    assert every == ("3.zip", ".3.zip.crc", "3.zip.crc", ".3.zip.crc.crc")
    assert {names.without_checksum(each) for each in every} == {"3.zip"}


@given(st.from_regex(r"[0-9]+\.(zip|changelog)", fullmatch=True))
def test_whatever_the_file(name):
    assert {names.without_checksum(each) for each in names.with_checksums(name)} == {name}


def test_versions_are_told_from_what_is_being_written():
    files = ["3.zip", "3.zip.crc", ".3.zip.crc", "4.changelog", ".5.zip.0c-1f.TID7.tmp"]
    assert names.versions(files) == Versions(frozenset({3}), frozenset({4}))


@pytest.mark.parametrize("name", ["3_0c1f.zip", "3.delta", "notes.txt", "3_0c1f.changelog"])
def test_a_file_of_another_kind_is_none(name):
    with pytest.raises(NotKnown, match="is none of the files that are known"):
        names.versions(["3.zip", name])


@pytest.mark.parametrize(
    ("snapshots", "changelogs", "version", "files"),
    [
        ({3}, set(), 3, ("3.zip",)),
        ({3, 5}, {4, 5, 6, 7}, 6, ("5.zip", "6.changelog")),
        ({3}, {2, 3, 4, 5}, 5, ("3.zip", "4.changelog", "5.changelog")),
        (set(), {1, 2}, 2, ("1.changelog", "2.changelog")),
        ({7}, {7}, 6, ()),
    ],
)
def test_a_version_is_the_last_snapshot_and_what_has_come_since(
    snapshots, changelogs, version, files
):
    found = Versions(frozenset(snapshots), frozenset(changelogs))
    assert found.leading_to(version) == files


def test_a_snapshot_names_its_data_files():
    told = {
        "sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-0c.sst", "sizeBytes": 7}],
        "logFiles": [{"localFileName": "9.log", "dfsLogFileName": "9-1f.log", "sizeBytes": 7}],
        "numKeys": 2,
    }
    assert names.data_files(snapshot(told)) == ("SSTs/8-0c.sst", "logs/9-1f.log")
    assert names.data_files(snapshot({"sstFiles": [], "logFiles": [], "numKeys": 0})) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"cut off",
        snapshot("v1\n{"),
        snapshot("v1\n[1]"),
        snapshot({"sstFiles": [{"dfsName": "8.sst"}]}),
    ],
)
def test_a_snapshot_that_is_none_is_an_error(content):
    with pytest.raises(NotKnown, match="a version of its state can't be read"):
        names.data_files(content)


def test_stores_have_folders():
    assert names.folder_of((0, "default"), 3) == "0/3"
    assert names.folder_of((1, "left-keyToNumValues"), 0) == "1/0/left-keyToNumValues"
