"""What a ResourceManager says of applications, and what it means. Pure.

What must not change: an application is taken for ended only by a state that is final; what its
diagnostics say of a node that was lost is no end, for containers may live on there.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.capacity import Capacity, Free
from dagster_sparkscale.clusters.fate import RETURNED, End, by_code
from dagster_sparkscale.markdown import cut

FINAL = ("FINISHED", "FAILED", "KILLED")
ALIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
_LOST = (-100,)
"""Exit status of a container that YARN gave up with its node: ContainerExitStatus.ABORTED."""
_STATUS = re.compile(r"(?:exited with status|exitCode:|Exit code is) (-?\d+)")
_LONGEST = 300


@dataclass(frozen=True)
class Application:
    """One application, as the ResourceManager tells of it."""

    id: str
    state: str
    final_status: str
    diagnostics: str
    tags: frozenset[str]
    queue: str
    user: str
    finished_at: float | None
    """Seconds since the epoch, by the ResourceManager's clock; None: it has not."""
    node: str | None
    """Host and port of the NodeManager that has its driver's container; None: not yet."""
    container: str | None
    scheme: str = "http"
    """The scheme of NodeManagers' URLs: `https` where YARN's policy is HTTPS_ONLY."""
    pages: str | None = None
    """Address of its own pages, through whatever proxy YARN has; None: not known yet."""

    @property
    def node_url(self) -> str | None:
        """The web services of that NodeManager."""
        return f"{self.scheme}://{self.node}" if self.node else None

    @property
    def final(self) -> bool:
        return self.state in FINAL

    @property
    def host(self) -> str | None:
        """The host of its driver."""
        return urlsplit(f"//{self.node}").hostname if self.node else None

    @property
    def status(self) -> int | None:
        """The exit status that its diagnostics tell; None: none. The first of them is that of its
        container: the end of its log may follow, where others are."""
        found = _STATUS.search(self.diagnostics)
        return int(found[1]) if found else None

    @property
    def lost(self) -> bool:
        """Whether it was given up because its node was: it may live on there."""
        return self.state == "FAILED" and self.status in _LOST


def read(content: Any) -> list[Application]:
    """The applications in an answer to `/ws/v1/cluster/apps`.

    Raises:
        ValueError: it has not the form that YARN gives it.
    """
    try:
        return [_application(each) for each in (content["apps"] or {}).get("app", ())]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no list of applications: {error!r}") from None


def _application(entry: Any) -> Application:
    finished = int(entry.get("finishedTime") or 0)
    logs = urlsplit(str(entry.get("amContainerLogs") or ""))
    container = [part for part in logs.path.split("/") if part.startswith("container_")]
    pages = str(entry.get("trackingUrl") or "")
    return Application(
        id=str(entry["id"]),
        state=str(entry["state"]),
        final_status=str(entry.get("finalStatus") or ""),
        diagnostics=str(entry.get("diagnostics") or ""),
        tags=frozenset(filter(None, str(entry.get("applicationTags") or "").split(","))),
        queue=str(entry.get("queue") or ""),
        user=str(entry.get("user") or ""),
        finished_at=finished / 1000 if finished else None,
        node=entry.get("amHostHttpAddress") or None,
        container=container[0] if container else None,
        scheme="https" if logs.scheme == "https" else "http",
        pages=pages if urlsplit(pages).scheme in ("http", "https") else None,
    )


def of_record(record_id: str) -> str:
    """The tag of all drivers of a stream. YARN knows tags in lower case only."""
    return f"sparkscale-{record_id}".lower()


def of_epoch(record_id: str, epoch: int) -> str:
    """The tag of one driver."""
    return f"{of_record(record_id)}-{epoch}"


def of_checkpoint(checkpoint: str) -> str:
    """The tag of whoever works on a checkpoint, from whatever state folder it was started."""
    return f"sparkscale-on-{hashlib.sha256(checkpoint.encode()).hexdigest()[:32]}"


def newest(apps: Iterable[Application], tag: str) -> Application | None:
    """The application that lives, of several with one tag, or else the one submitted last."""
    ours = [each for each in apps if tag in each.tags]
    # YARN numbers them with four digits, and from 10,000 on with as many as it takes.
    return max(ours, key=lambda each: (not each.final, len(each.id), each.id), default=None)


def waiting_for(app: Application) -> str:
    """Describe where an application waits, and why."""
    why = in_one_line(app.diagnostics)
    return f"{app.id}, {app.state} in queue {app.queue}{f': {why}' if why else ''}"


def ended(app: Application, raised: str | None = None) -> End:
    """Why an application has ended.

    Args:
        raised: what its driver has told that it died of.
    """
    status = app.status
    if app.state == "FINISHED" and app.final_status == "SUCCEEDED":
        return RETURNED
    if app.state == "KILLED" or status is None:
        return End(in_one_line(app.diagnostics) or f"{app.state.lower()} by YARN")
    if status < 0:  # YARN's own: out of memory, preempted, killed by the ResourceManager
        return End(in_one_line(app.diagnostics))
    end = by_code(status)
    return End(f"{end.reason}: {raised}", end.how) if raised and end.how == "exit code" else end


def in_one_line(text: str) -> str:
    """What matters of diagnostics, which are long and have traces of Java."""
    lines = [line.strip() for line in text.splitlines()]
    return cut(" ".join(line for line in lines if line and not line.startswith("at ")), _LONGEST)


_HEAD, _TAIL = "\nLogContents:\n", "\nEnd of LogType:"


def log_in(answer: str) -> str:
    """The log in what a NodeManager says of it: without what it says around it."""
    _, head, rest = answer.partition(_HEAD)
    return (rest if head else answer).rpartition(_TAIL)[0] if _TAIL in answer else rest or answer


def room(content: Any) -> Capacity:
    """What the nodes that run offer, of `/ws/v1/cluster/nodes`.

    Raises:
        ValueError: it has not the form that YARN gives it.
    """
    try:
        nodes = [
            each for each in (content["nodes"] or {}).get("node", ()) if each["state"] == "RUNNING"
        ]
        free = sum(int(each["availableVirtualCores"]) for each in nodes)
        used = sum(int(each["usedVirtualCores"]) for each in nodes)
        lines = tuple(
            f"{each['id']}: {each['usedVirtualCores']} of "
            f"{each['usedVirtualCores'] + each['availableVirtualCores']} cores and "
            f"{each['usedMemoryMB']} of {each['usedMemoryMB'] + each['availMemoryMB']} MB in use"
            for each in nodes
        )
        # With the default resource calculator YARN places by memory alone.
        left = tuple(Free(None, float(each["availMemoryMB"])) for each in nodes)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no list of nodes: {error!r}") from None
    return Capacity(used + free, free, len(lines), lines, left)
