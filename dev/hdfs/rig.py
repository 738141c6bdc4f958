"""A real NameNode with one DataNode, for tests: a file system that is no folder of this machine.

They end with who wanted them (`dev/hadoop/rig.py`): `python -m dev.hdfs` keeps them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests

from dev.hadoop.rig import HadoopRig, kept
from dev.hadoop.settings import HERE, xml
from dev.hdfs import settings
from dev.hdfs.settings import Ports
from dev.processes import port_to_use

_MAIN = "org.apache.hadoop.hdfs.server."
_NAMES = _MAIN + "namenode.NameNode"
_BLOCKS = _MAIN + "datanode.DataNode"


@dataclass(frozen=True)
class Address:
    """What a client of a rig needs to know."""

    url: str
    """hdfs://... of the file system's root."""
    web: str
    """http://... of WebHDFS."""
    folder: str
    mark: str

    def content(self, folder: str) -> dict[str, bytes]:
        """All files in a folder, however deep, by their paths in it; none where it is not there."""
        found: dict[str, bytes] = {}
        for each in self._listed(folder):
            name = each["pathSuffix"]
            if each["type"] == "DIRECTORY":
                inside = self.content(f"{folder}/{name}")
                found |= {f"{name}/{path}": content for path, content in inside.items()}
            else:
                found[name] = self._ask(f"{folder}/{name}", "OPEN").content
        return found

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        answer = self._ask(folder, "LISTSTATUS")
        listed: list[dict[str, Any]] = (
            [] if answer.status_code == 404 else answer.json()["FileStatuses"]["FileStatus"]
        )
        return listed

    def _ask(self, path: str, operation: str) -> requests.Response:
        url = f"{self.web}/webhdfs/v1/{path.lstrip('/')}"
        answer = requests.get(url, params={"op": operation}, timeout=60)
        if answer.status_code != 404:
            answer.raise_for_status()
        return answer


class Rig(HadoopRig):
    """A NameNode and a DataNode. Not started yet."""

    @property
    def address(self) -> Address:
        return Address(
            f"hdfs://{HERE}:{self._ports.files}",
            f"http://{HERE}:{self._ports.web}",
            str(self.folder),
            self.mark,
        )

    def told(self) -> str:
        return json.dumps(asdict(self.address))

    def start(self) -> None:
        """Start both, the jars installed first where need be, and wait until files can be written.

        Raises:
            RigFailed: one has ended, or does not answer.
        """
        self._ports = Ports(port_to_use(0), port_to_use(0))
        for name in ("namenode", "datanode"):
            conf, here = self.conf(name), str(self.folder)
            (conf / "core-site.xml").write_text(xml(settings.common(here, self._ports)))
            (conf / "hdfs-site.xml").write_text(xml(settings.hdfs(here, self._ports)))
            # Of their pages, which the jar lacks: a daemon does not start without the folders.
            for pages in ("hdfs", "datanode", "static"):
                (conf / "webapps" / pages).mkdir(parents=True)
        self.run("namenode", _NAMES, "-format", "-nonInteractive")
        self.launch("namenode", _NAMES)
        self.launch("datanode", _BLOCKS)
        self.wait_until("the DataNode", self._takes_files)

    def _takes_files(self) -> bool:
        url = f"{self.address.web}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
        try:
            told = requests.get(url, timeout=5).json()["beans"][0]
            return not told["Safemode"] and bool(json.loads(told["LiveNodes"]))
        except (OSError, ValueError, LookupError, TypeError):
            return False


@contextmanager
def tethered(folder: Path) -> Iterator[Address]:
    """A rig kept by a process of its own, which ends it with this context or with this process.

    Raises:
        RigFailed: it did not come up; carries what it said.
    """
    with kept("dev.hdfs", folder) as line:
        yield Address(**json.loads(line))
