"""Whether a container answers as its pod says it should."""

import socket
import urllib.request
from typing import Any

from dev.kubernetes.api import Object
from dev.kubernetes.containers import Container


def answers(spec: Object, probe: Object, address: str, container: Container) -> bool:
    """Whether a probe goes well.

    Args:
        spec: the container's, which may name ports.
        address: the pod's.
    """
    seconds = float(probe.get("timeoutSeconds", 1))
    if (command := probe.get("exec")) is not None:
        return container.run(command["command"], seconds) == 0
    try:
        if (where := probe.get("tcpSocket")) is not None:
            socket.create_connection((address, _port(spec, where["port"])), seconds).close()
        elif (where := probe.get("httpGet")) is not None:
            url = f"http://{address}:{_port(spec, where['port'])}{where.get('path', '/')}"
            urllib.request.urlopen(url, timeout=seconds).close()
    except OSError:
        return False
    return True


def _port(spec: Object, named: Any) -> int:
    for port in spec.get("ports") or []:
        if port.get("name") == named:
            return int(port["containerPort"])
    return int(named)
