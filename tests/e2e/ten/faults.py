"""What happens to the ten streams and to Dagster, drawn by the seed: processes that are killed,
others that stand still and go on, and connections that are damaged.

Whatever is stopped here goes on afterwards, and what is killed of Dagster's is started again.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.base import Driver
from dev.toxiproxy.proxy import Link
from tests.e2e.soak_faults import VICTIMS
from tests.e2e.ten.dagster_side import Dagster
from tests.e2e.ten.memory import SPARED
from tests.faults.real.links import Damage
from tests.faults.real.processes import standing_still

SHORTEST, LONGEST = 20.0, 75.0
"""Seconds that something stands still, or a connection is damaged."""
DOWN = (2.0, 15.0)
"""Seconds until what was killed of Dagster is started again."""
_ANSWERED = 10_000
"""Bytes: about what Kafka and Kinesis answer here."""
DAMAGES = (Damage.SLOW, Damage.HOLE_OUT, Damage.HOLE_BACK, Damage.RESET)


@dataclass
class Fault:
    """One that was played."""

    began: float
    """Seconds since the epoch."""
    ended: float
    what: str
    of: str
    """A stream, or a process of Dagster's."""

    @property
    def of_watchers(self) -> bool:
        """Whether no tick can be made while it lasts."""
        return self.of in ("daemon", "code server")


class Faults:
    """Plays one after the other."""

    def __init__(
        self,
        cluster: LocalCluster,
        dagster: Dagster,
        links: dict[str, Link],
        streams: list[str],
        chance: random.Random,
    ) -> None:
        self._cluster, self._dagster, self._links = cluster, dagster, links
        self._streams, self._chance = streams, chance
        self.played: list[Fault] = []
        self._kinds: dict[str, tuple[int, Callable[[str], None]]] = {
            "kill a driver": (3, lambda s: self._kill("the driver", s)),
            "kill a supervisor": (1, lambda s: self._kill("its supervisor", s)),
            "kill an executor": (4, self._kill_one_executor),
            "stop a driver": (3, self._stop_driver),
            "stop a supervisor": (1, self._stop_supervisor),
            "stop the executors": (2, self._stop_executors),
            "stop the daemon": (2, lambda _: self._stop_dagster("daemon")),
            "stop the code server": (2, lambda _: self._stop_dagster("code server")),
            "stop the web server": (1, lambda _: self._stop_dagster("web server")),
            "damage a link": (2, self._damage),
        }
        self._early: dict[str, Callable[[str], None]] = {
            "kill the daemon": lambda _: self._kill_dagster("daemon"),
            "kill the code server": lambda _: self._kill_dagster("code server"),
            "kill the web server": lambda _: self._kill_dagster("web server"),
        }

    def next_of_dagster(self) -> None:
        """Kill one of Dagster's processes: once each, and only before memory is compared."""
        if self._early:
            what = next(iter(self._early))
            self._played(what, what.partition(" the ")[2], self._early.pop(what))

    def next(self) -> None:
        """Play one that is drawn."""
        names = list(self._kinds)
        weights = [weight for weight, _ in self._kinds.values()]
        (what,) = self._chance.choices(names, weights)
        whom = self._chance.choice(self._of(what))
        of = what.partition(" the ")[2] if what.endswith(("server", "daemon")) else whom
        self._played(what, of, self._kinds[what][1])

    def _of(self, what: str) -> list[str]:
        """The streams that it may happen to."""
        if what in ("kill a driver", "kill a supervisor"):
            return [each for each in self._streams if each not in SPARED]
        return list(self._links) if what == "damage a link" else self._streams

    def _played(self, what: str, of: str, play: Callable[[str], None]) -> None:
        began = time.time()
        print(f"{time.strftime('%H:%M:%S')} fault: {what}: {of}", flush=True)
        fault = Fault(began, began, what, of)
        self.played.append(fault)
        try:
            play(of)
        except (LookupError, psutil.NoSuchProcess):
            fault.what += ", which was not there"
        fault.ended = time.time()

    def _seconds(self) -> float:
        return self._chance.uniform(SHORTEST, LONGEST)

    def _driver(self, stream: str) -> Driver:
        driver = self._cluster.find(stream)
        if driver is None or not driver.state.alive:
            raise LookupError(stream)
        return driver

    def _victims(self, who: str, stream: str) -> list[psutil.Process]:
        try:
            pids = VICTIMS[who](self._cluster, self._driver(stream))
        except OSError as error:  # its note is not written yet
            raise LookupError(stream) from error
        return [psutil.Process(pid) for pid in pids]

    def _kill(self, who: str, stream: str) -> None:
        for each in self._victims(who, stream):
            each.kill()

    def _kill_one_executor(self, stream: str) -> None:
        found = self._victims("all executors", stream)
        if not found:
            raise LookupError(stream)
        self._chance.choice(found).kill()

    def _stop_driver(self, stream: str) -> None:
        (python,) = self._victims("the driver", stream)
        self._stand_still([python, *python.children(recursive=True)])

    def _stop_supervisor(self, stream: str) -> None:
        self._stand_still(self._victims("its supervisor", stream))

    def _stop_executors(self, stream: str) -> None:
        self._stand_still(self._victims("all executors", stream))

    def _stop_dagster(self, name: str) -> None:
        self._stand_still([self._dagster.process(name)])

    def _stand_still(self, processes: list[psutil.Process]) -> None:
        seconds = self._seconds()
        with standing_still(processes):
            time.sleep(seconds)

    def _kill_dagster(self, name: str) -> None:
        self._dagster.kill(name)
        time.sleep(self._chance.uniform(*DOWN))
        self._dagster.start_again(name)

    def _damage(self, stream: str) -> None:
        damage = self._chance.choice(DAMAGES)
        self.played[-1].what += f": {damage.value}"
        with self._links[stream].damaged(damage.toxics(_ANSWERED)):
            time.sleep(self._seconds())
