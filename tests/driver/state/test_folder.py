"""Lists of files as Hadoop's file systems print them. The forms are theirs, of Hadoop 3.5; that of
HDFS is looked at for real in `test_on_hdfs.py`, that of a local folder wherever a driver runs."""

import errno
import os

import pytest

from dagster_sparkscale.driver.state.folder import listed, local_files

REST = (
    "; replication=1; blocksize=134217728; modification_time=1763886000000; access_time=0; "
    "owner=spark; group=supergroup; permission=rw-r--r--; isSymlink=false; hasAcl=false; "
    "isEncrypted=false; isErasureCoded=false}"
)


def status(name: str, path: str, size: int) -> str:
    return f"{name}{{path={path}; isDirectory=false; length={size}{REST}"


def in_s3(path: str, size: int) -> str:
    told = status("S3ALocatedFileStatus", path, size)
    return f"{told}[eTag='\"5eb63bbbe01eeed0\"', versionId='']"


def in_azure(path: str, size: int) -> str:
    told = status("AbfsLocatedFileStatus", path, size)
    return f"AbfsLocatedFileStatus{{etag='0x8DC1'}} {told}"


@pytest.mark.parametrize(
    ("root", "printed"),
    [
        ("file:/data/c", lambda *of: status("LocatedFileStatus", *of)),
        ("hdfs://names:8020/c", lambda *of: status("HdfsLocatedFileStatus", *of)),
        ("s3a://bucket/c", in_s3),
        ("abfss://c@account.dfs.core.windows.net/c", in_azure),
    ],
)
def test_paths_and_sizes_are_read_from_each_file_system(root, printed):
    files = [
        (f"{root}/offsets/0", 713),
        (f"{root}/state/0/12/3.zip", 0),
        (f"{root}/state/a path=, {{of}} mine; length=4; more", 5),
        (f"{root}/commits/[10], LocatedFileStatus", 29),
    ]
    assert listed(f"[{', '.join(printed(*file) for file in files)}]") == files


def test_what_is_printed_otherwise_is_not_taken_for_a_file():
    assert listed("[]") == []
    assert listed("[/data/c/offsets/0, /data/c/offsets/1]") == []


def test_files_of_this_host_are_told_as_hadoop_does_without_its_checksums(tmp_path):
    for name in ("offsets/0", "state/0/5/1_a.zip", "offsets/.0.crc", ".hidden", "state/x.crc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    told = ("offsets/0", "state/0/5/1_a.zip", ".hidden", "state/x.crc")
    assert local_files(str(tmp_path)) == {name: len(name) for name in told}


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_folder_of_this_host_that_can_t_be_listed_is_not_taken_for_empty(
    tmp_path, monkeypatch, code
):
    """As for a moment on NFS: what is in it would be deleted by an undo, as if it were new."""
    for name in ("state/0/1/5.zip", "state/0/2/5.zip"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    scan = os.scandir

    def scandir(place: str):
        if place.endswith("/state/0/2"):
            raise OSError(code, os.strerror(code), place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(OSError, match="state/0/2"):
        local_files(str(tmp_path))
