"""Addresses for one cluster on this machine: a bridge, and a pair of interfaces a pod."""

import ipaddress
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Lock

_ALL = ipaddress.IPv4Network("198.18.0.0/15")
"""Set aside for tests of networks (RFC 2544): nobody's real addresses."""
_CLUSTERS = 64


class NoNetwork(RuntimeError):
    """No bridge could be made; says what the system said."""


@dataclass
class Network:
    """A bridge with the addresses of one cluster, until `close`."""

    number: int
    _held: socket.socket = field(repr=False)
    _pods: dict[str, ipaddress.IPv4Address] = field(default_factory=dict)
    _names: Iterator[int] = field(default_factory=count)
    _lock: Lock = field(default_factory=Lock)

    @property
    def bridge(self) -> str:
        return f"sparkscale{self.number}"

    @property
    def _range(self) -> ipaddress.IPv4Network:
        first = _ALL.network_address + self.number * 1024
        return ipaddress.IPv4Network(f"{first}/22")

    @property
    def services(self) -> str:
        """The range of Services' addresses."""
        return f"{self._range.network_address}/24"

    @property
    def api_server(self) -> str:
        """The bridge's own address: the first of the Services' range is the API server's Service,
        so pods reach it at both."""
        return str(self._range.network_address + 1)

    def address(self, pod: str) -> str:
        """An address for a pod, that it keeps until `give_back`."""
        with self._lock:
            if pod not in self._pods:
                taken = set(self._pods.values())
                others = (self._range.network_address + n for n in range(256, 1023))
                self._pods[pod] = next(each for each in others if each not in taken)
            return str(self._pods[pod])

    def hardware_address(self, address: str) -> str:
        """The one that belongs to an address of this cluster, whoever has that. So it stays true
        what others on the bridge have remembered of it."""
        last = ipaddress.IPv4Address(address).packed
        return "02:00:" + ":".join(f"{byte:02x}" for byte in last)

    def give_back(self, pod: str) -> None:
        with self._lock:
            self._pods.pop(pod, None)

    def connect(self, pid: int) -> None:
        """Give the network namespace of a process an interface `eth0`, without an address yet.

        Raises:
            NoNetwork: the system would not.
        """
        name = f"ss{self.number}p{next(self._names)}"
        _ip(
            f"link add {name} type veth peer name eth0 netns {pid}",
            f"link set {name} master {self.bridge} up",
        )

    def inside(self, pod: str) -> list[str]:
        """Commands of `ip` that give a pod its address, to be run in its namespace."""
        return [
            "link set lo up",
            f"link set eth0 address {self.hardware_address(self.address(pod))}",
            f"address add {self.address(pod)}/22 dev eth0",
            "link set eth0 up",
            f"route add default via {self.api_server}",
        ]

    def close(self) -> None:
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)
        self._held.close()


def open_network() -> Network:
    """A bridge with addresses that no other cluster on this machine has.

    Raises:
        NoNetwork: all are taken, or this user may not.
    """
    for number in range(_CLUSTERS):
        # Held as long as this process lives, whatever ends it; a file would stay behind.
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0dagster-sparkscale-kubernetes-{number}")
        except OSError:
            held.close()
            continue
        network = Network(number, held)
        # One that was killed has left its bridge.
        subprocess.run(["ip", "link", "delete", network.bridge], capture_output=True, check=False)
        try:
            # By itself a bridge takes that of one of its interfaces, and another when that goes:
            # for most of a minute pods would send into nowhere what is for the API server.
            hardware = network.hardware_address(network.api_server)
            _ip(
                f"link add {network.bridge} address {hardware} type bridge",
                f"address add {network.api_server}/22 dev {network.bridge}",
                f"link set {network.bridge} up",
            )
        except NoNetwork:
            network.close()
            raise
        return network
    raise NoNetwork(f"{_CLUSTERS} clusters are running on this machine already")


def _ip(*commands: str) -> None:
    try:
        done = subprocess.run(
            ["ip", "-batch", "-"],
            input="\n".join(commands),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise NoNetwork(f"ip (of the package iproute2): {error}") from error
    if done.returncode:
        raise NoNetwork(f"ip: {done.stderr.strip()}; this needs root on Linux")
