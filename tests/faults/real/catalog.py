"""The faults of real parts by name, in words: what is done, and what must hold."""

from dataclasses import dataclass
from itertools import product

from tests.faults.real.clocks import CLOCKS
from tests.faults.real.dagsters import PLAYS as DAGSTERS
from tests.faults.real.disks import FAULTS, WHERE
from tests.faults.real.life import FAULTS as CALLS
from tests.faults.real.links import Damage
from tests.faults.real.on_kubernetes import PLAYS as KUBERNETES
from tests.faults.real.processes import HOW, VICTIMS, fault_name


@dataclass(frozen=True)
class RealFault:
    """One row of the page."""

    name: str
    in_words: str
    holds: str
    """What must hold, besides that there are never two drivers."""


_WHILE = "from when a driver is launched, and while it is to be stopped"
_ONE_STARTED = "one driver at most; a run that fails says why; then the stream runs, and stops"
_LINKS = {
    "agent-link": (
        "between Dagster and the agent of a driver, from when a rescale asks for executors",
        "batches go on; the run is right in what it says of the executors; the sensor restarts "
        "nothing; then the next rescale is reached by the same driver",
    ),
    "api-link": (
        f"between Dagster and the API server of Kubernetes, {_WHILE}",
        _ONE_STARTED,
    ),
    "master-link": (
        "between Dagster and the master of a Standalone cluster that runs drivers on its workers, "
        f"{_WHILE}",
        _ONE_STARTED,
    ),
    "yarn-link": (
        f"between Dagster, with Hadoop's client, and YARN's ResourceManager, {_WHILE}",
        _ONE_STARTED,
    ),
    "kafka-link": (
        "between a stream and its Kafka broker, for 45 s",
        "no lag is told that is not known; then every record has been read once",
    ),
    "kinesis-link": (
        "between a stream and Kinesis, for 45 s",
        "every record has been read once in the end",
    ),
}
_DISKS = {"full": "is full", "no-inodes": "has no inodes left", "read-only": "is read-only"}
_PROCESSES = {
    "stopped": "stopped by SIGSTOP for 75 s",
    "no-descriptors": "no descriptor is free for 75 s, so no file and no connection can be opened",
}
_WOKEN = (
    "one driver; what a person asks for meanwhile is done; the run that wakes up finds that it has "
    "lost its lease, and does nothing more; the next operations are done"
)
_OF_DAGSTER = {
    "stopped-daemon": (
        "Dagster's daemon with its code server: stopped by SIGSTOP for 75 s, and the driver dies",
        "what a person asks for is done; then the driver is started again, once",
    ),
    "stopped-recovering-daemon": (
        "Dagster's daemon with the run by which it has a dead driver started again: stopped by "
        "SIGSTOP for 75 s, while that has the lease",
        _WOKEN,
    ),
    "stopped-run-rescale": (
        "the run of a rescale: stopped by SIGSTOP for 75 s, while it has the lease",
        _WOKEN,
    ),
    "stopped-run-restart": (
        "the run of a restart: stopped by SIGSTOP for 75 s, when it is about to stop the driver",
        _WOKEN,
    ),
}
_COUNTED = (
    "never do two pods of drivers run; what fails says of what; then the stream runs, is rescaled "
    "and stops, and all lines were counted once"
)
_ON_KUBERNETES = {
    "kubernetes-rights": (
        "the rights of Dagster's account and of the drivers' are taken away, while a rescale, a "
        "restart and a stop are asked for, and again in the middle of a restart"
    ),
    "kubernetes-quota": (
        "a ResourceQuota leaves no room for a pod, while a rescale is asked for, and the driver "
        "dies"
    ),
    "kubernetes-lease-deleted": (
        "the lease is struck out of the stream's ConfigMap by hand, in the middle of a restart, "
        "and the stream is materialized"
    ),
    "kubernetes-record-deleted": (
        "the stream's ConfigMap is deleted by hand, and put back; then it is deleted in the middle "
        "of a restart"
    ),
    "kubernetes-node-gone": (
        "the node of the driver dies without a word, is silent for a while, and is deleted with "
        "its pods"
    ),
    "kubernetes-slow-webhook": (
        "a webhook that admits pods takes 8 s, while a restart is asked for; then 20 s, and more "
        "than the API server waits, while a restart is asked for, and the driver dies"
    ),
    "kubernetes-operator-silent": (
        "the operator that makes drivers of SparkApplications is down, while a rescale and a "
        "restart are asked for, and for longer than a start is waited for"
    ),
}
_RUNS = "then the stream runs and can be rescaled; what fails says why"
_FAULTS = [
    *(
        RealFault(f"{link}-{damage.value}", f"{where}: {damage.in_words}", holds)
        for link, (where, holds) in _LINKS.items()
        for damage in Damage
    ),
    *(
        RealFault(
            fault_name(how, who),
            f"{who}: {_PROCESSES[how]}",
            "one driver has batches in the end; no second one works meanwhile",
        )
        for how, who in product(HOW, VICTIMS)
    ),
    *(RealFault(name, *_OF_DAGSTER[name]) for name in DAGSTERS),
    *(RealFault(name, _ON_KUBERNETES[name], _COUNTED) for name in KUBERNETES),
    *(
        RealFault(f"{where}-{how}", f"the disk of the {where} {_DISKS[how]}", _RUNS)
        for where, how in product(WHERE, FAULTS)
    ),
    *(
        RealFault(
            name,
            f"the clock of Dagster's host jumps by {seconds:+,.0f} s, and back after 75 s",
            "the same driver goes on; what is asked for before, meanwhile and after is done",
        )
        for name, seconds in CLOCKS.items()
    ),
    *(
        RealFault(
            name,
            "2 to 15 % of the calls of runs to records, agents and the local cluster, while a "
            "stream is started, rescaled, reconfigured, restarted, stopped and killed: "
            f"{fault.in_words}",
            "no operation launches a driver too often, and what it has told as done is so; then "
            "the stream runs, or shows why not, and runs when it is started; all lines were "
            "counted, none twice",
        )
        for name, fault in CALLS.items()
    ),
]
REAL = {each.name: each for each in _FAULTS}
"""By name."""
