"""python -m tests.clusters.host.reads FOLDER CLUSTER NUMBER

Pretends that so many streams run on this host, each with all that is kept of older starts, looks at
them as a tick does, and prints how often files and folders were opened for a look, at most.

In a process of its own: what counts can't be taken off again.
"""

import json
import os
import socket
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dagster_sparkscale import StandaloneCluster, YarnCluster
from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.host import places
from dagster_sparkscale.clusters.host.folders import HISTORY, KEPT_SUBMISSIONS
from dagster_sparkscale.clusters.host.registers import KEPT
from dagster_sparkscale.clusters.host.state_folder import StateFolderCluster
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.watch.sighting import look
from tests.clusters.running import stream

opened: Counter[str] = Counter()


def count(event: str, words: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        opened[str(words[0])] += 1


def pretend(cluster: StateFolderCluster, name: str, url: str) -> None:
    folder = cluster.store().folder(name)
    folder.create()
    history = tuple(Submission(epoch + 1, 1e9 + epoch, "manual") for epoch in range(HISTORY))
    record = replace(
        Record.new(f"{name:0>16}"),
        epoch=HISTORY,
        desired="running",
        submitter=places.this_process(),
        history=history,
    )
    records = folder.path / "record"
    records.mkdir()
    for revision in range(1, KEPT + 1):
        (records / str(revision)).write_text(json.dumps(asdict(replace(record, revision=revision))))
    for epoch in range(HISTORY - KEPT_SUBMISSIONS + 1, HISTORY + 1):
        files = folder.submission(epoch)
        files.create()
        here = {"pid": os.getpid(), "birth": birth(os.getpid())}
        files.driver.write_text(json.dumps(here))
        files.supervisor.write_text(json.dumps(here))
        files.agent.write_text(json.dumps({"url": url, "app_id": "app-1"}))
        files.write_private(files.token, "token")


def clusters(folder: str) -> dict[str, StateFolderCluster]:
    yarn = {"resource_managers": ["http://127.0.0.1:9"], "hadoop_conf_dir": folder}
    return {
        "standalone": StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=folder),
        "yarn": YarnCluster(**yarn, state_dir=folder),
    }


def looked_at(cluster: ClusterManager, names: list[str], folder: str) -> list[int]:
    """How often something was opened for each stream's look."""
    snapshot, found = cluster.snapshot(), []
    for name in names:
        opened.clear()
        sighting = look(snapshot, stream(name), timeout=5.0)
        assert sighting.driver is not None and sighting.driver.state is not DriverState.FAILED
        assert "gave no answer" in str(sighting.error), sighting
        found.append(sum(opened[each] for each in opened if each.startswith(folder)))
    return found


def main(folder: str, kind: str, number: int) -> None:
    cluster = clusters(folder)[kind]
    with socket.socket() as nobody:  # who does not listen refuses at once
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        names = [f"s{each}" for each in range(number)]
        for name in names:
            pretend(cluster, name, url)
        sys.addaudithook(count)
        found = looked_at(cluster, names, str(Path(folder)))
    print(json.dumps({"streams": len(cluster.store().streams()), "most": max(found[1:])}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
