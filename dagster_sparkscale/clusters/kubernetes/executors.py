"""Executors that a driver has left: ended, or passed over where their nodes do not answer.

What must not change: where the driver is not known to have ended, an executor that may run bars the
next start. Where it is, one whose node does not answer bars nothing: it ends by itself, as it has
no driver, and Spark itself goes on without one that it has lost.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import names, pod_fate
from dagster_sparkscale.clusters.kubernetes.api import Api, Object, Unreachable
from dagster_sparkscale.clusters.kubernetes.manifests import EXECUTOR
from dagster_sparkscale.clusters.pauses import pauses

_log = logging.getLogger(__name__)


def selector(labels: Mapping[str, str]) -> str:
    """A query for the executors of the driver that has these labels."""
    return names.selector({**labels, **EXECUTOR})


def end(
    api: Api, labels: Mapping[str, str], seconds: float, every: float, passes_over: bool
) -> None:
    """Delete the executors of the driver that has these labels, and wait until they are gone.

    Args:
        seconds: how long they may take.
        every: seconds between two looks, at most.
        passes_over: whether executors on nodes that do not answer are passed over.

    Raises:
        ClusterError: executors are left; gives the command that deletes them.
    """
    query = selector(labels)
    deadline = time.monotonic() + seconds
    for pause in pauses(every):
        late = time.monotonic() > deadline
        try:
            left = api.find("pods", labelSelector=query)
            waited_for = [pod for pod in left if not pod_fate.silence_of(pod, time.time())]
            if any("deletionTimestamp" not in pod["metadata"] for pod in left):
                api.delete_all("pods", grace=1, labelSelector=query)
            if not left:
                return
            if passes_over and (late or not waited_for):
                _log.warning("%s. Their driver has ended: passed over", _advice(api, left, query))
                return
            if late:
                raise ClusterError(
                    f"{_advice(api, left, query)}. Their driver is not known to have ended: until "
                    "then nothing is started"
                )
        except Unreachable:
            if late:
                raise
        time.sleep(pause)


def warn_of_silent(api: Api, labels: Mapping[str, str]) -> None:
    """Log the executors of a running driver whose end nobody will notice."""
    query = selector(labels)
    if found := _silent(api, query):
        _log.warning("%s. A restart does not wait for them", _advice(api, found, query))


def conditions(api: Api) -> Iterator[Condition]:
    """Warn of executors in the namespace whose nodes do not say whether they run.

    Raises:
        ClusterError: the executors can't be listed.
    """
    query = selector({names.STREAM: ""})
    if found := _silent(api, query):
        text = f"the nodes of these do not answer: {_listed(found)}"
        cure = f"when you are certain that the nodes are dead, run {_deleting(api, _listed(found))}"
        yield Condition("executors", text, cure, urgent=False)


def _silent(api: Api, query: str) -> list[Object]:
    now = time.time()
    return [pod for pod in api.find("pods", labelSelector=query) if pod_fate.silence_of(pod, now)]


def _advice(api: Api, pods: Sequence[Object], query: str) -> str:
    return (
        "it can't be told whether these executors have ended, as their nodes do not answer: "
        f"{_listed(pods)}. When you are certain that the nodes are dead, run "
        f"{_deleting(api, f'-l {query}')}"
    )


def _listed(pods: Sequence[Object]) -> str:
    return " ".join(sorted(pod["metadata"]["name"] for pod in pods))


def _deleting(api: Api, which: str) -> str:
    return f"kubectl delete pods -n {api.namespace} {which} --force"
