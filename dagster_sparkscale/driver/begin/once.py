"""Sees to it that one process alone begins as the driver of a start, whoever makes its pods.

An operator may make the pod of a start twice, which Dagster knows nothing of. So each process that
begins as its driver first makes an object of Kubernetes with a name of that start, and only one can
be made. It stays until all that is left of the start is deleted.
"""

import contextlib
import json
import os
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's own credentials for the API server."""
AGAIN = 76
"""Exit code of a process that was not the first. Not that of one that has lost its checkpoint to
another stream: the first one's mark may be there, and whoever follows must know that."""
ROLE = (
    "the role in deploy/kubernetes/driver.yaml has all that a driver needs: bind it to the "
    "driver's service account"
)
"""What a driver says, and what is said of one, that Kubernetes refuses something."""
PATIENCE = 60.0
"""Seconds for which an API server that does not answer is asked again."""
ANSWER_SECONDS = 15.0
PAUSE = 0.5

Ask = Callable[[str, bytes | None], dict[str, Any]]
"""POSTs to a path of the API server, or GETs it where there is nothing to post."""


class CannotTell(Exception):
    """Nobody can say whether another process was first; the text says why."""


def begun_before(sign: dict[str, Any], ask: Ask, patience: float = PATIENCE) -> str | None:
    """When another process began as the driver of this start, UTC; None: this is the first one.

    Args:
        sign: the ConfigMap to make, as it will be but for who has made it.
        patience: seconds for which it is tried again.

    Raises:
        CannotTell: the API server does not answer, or refuses it.
    """
    mine, now = secrets.token_hex(8), time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    body = json.dumps({**sign, "data": {"by": mine, "at": now}}).encode()
    path = f"/api/v1/namespaces/{sign['metadata']['namespace']}/configmaps"
    deadline = time.monotonic() + patience
    while True:
        try:
            try:
                ask(path, body)
                return None
            except urllib.error.HTTPError as error:
                if error.code != 409:
                    raise
            # It may be our own, made by a request whose answer was lost.
            held = ask(f"{path}/{sign['metadata']['name']}", None).get("data") or {}
            return None if held.get("by") == mine else str(held.get("at"))
        except urllib.error.HTTPError as error:
            try:
                said = _message(error.read())
            except (OSError, HTTPException):  # it was cut
                said = str(error.reason)
            if error.code in (401, 403) or time.monotonic() > deadline:
                raise CannotTell(f"HTTP status {error.code}: {said}") from None
        except (OSError, HTTPException, ValueError) as error:
            if time.monotonic() > deadline:
                raise CannotTell(str(error)) from None
        time.sleep(PAUSE)


def _message(answer: bytes) -> str:
    """What the API server says of a refusal, without the JSON that it comes in."""
    text = answer.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        text = str(json.loads(text)["message"])
    return text.strip()[:500]


def asking(account: Path = ACCOUNT) -> Ask:
    """How a pod asks the API server of its cluster.

    Raises:
        CannotTell: this is no pod, or a pod without an account.
    """
    try:
        token = (account / "token").read_text().strip()
        tls = ssl.create_default_context(cafile=account / "ca.crt")
        host, port = (os.environ[f"KUBERNETES_SERVICE_{what}"] for what in ("HOST", "PORT"))
    except (OSError, KeyError) as error:
        raise CannotTell(f"this pod has no way to the API server: {error}") from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    # A proxy in the stream's own environment is not for this.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )

    def ask(path: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(server + path, body, headers)
        with opener.open(request, timeout=ANSWER_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    return ask
