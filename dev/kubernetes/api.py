"""Talking to the API server in plain dicts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

Object = dict[str, Any]
"""As the API server has it in JSON."""

MERGE = "application/merge-patch+json"


class Refused(RuntimeError):
    """The API server said no, or nothing; `status` is the HTTP status, 0 without an answer."""

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(said)
        self.status = status


@dataclass
class Api:
    """The API server, for one user; for several threads at a time."""

    server: str
    """Its URL."""
    certificate: Path
    """Of the authority that it is trusted by."""
    token: str = field(repr=False)
    _session: requests.Session = field(default_factory=requests.Session, repr=False)

    def __post_init__(self) -> None:
        self._session.trust_env = False  # no proxy between this machine and itself
        self._session.mount("https://", HTTPAdapter(pool_maxsize=100))

    def _known_by(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        **options: Any,
    ) -> requests.Response:
        """The answer to one request, whatever it is.

        Raises:
            Refused: there was none.
        """
        try:
            return self._session.request(
                method,
                self.server + path,
                data=None if body is None else json.dumps(body),
                headers={**self._known_by(), "Content-Type": kind},
                verify=str(self.certificate),
                **{"timeout": 30, **options},
            )
        except requests.RequestException as error:
            raise Refused(f"{method} {path}: {error}") from error

    def _object(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json"
    ) -> Object:
        answer = self.ask(method, path, body, kind=kind)
        if not answer.ok:
            said = f"{method} {path}: {answer.status_code} {answer.text}"
            raise Refused(said, answer.status_code)
        found: Object = answer.json()
        return found

    def get(self, path: str) -> Object | None:
        """An object or a list of them; None if there is none at that path.

        Raises:
            Refused: anything else than that.
        """
        try:
            return self._object("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Object]:
        """All of a kind.

        Raises:
            Refused: the API server does not say.
        """
        found: list[Object] = self._object("GET", path)["items"]
        return found

    def create(self, path: str, body: Object) -> Object:
        """
        Raises:
            Refused: the API server would not; 409 if there is one of that name.
        """
        return self._object("POST", path, body)

    def patch(self, path: str, body: Object) -> Object:
        """Merge `body` into an object.

        Raises:
            Refused: the API server would not.
        """
        return self._object("PATCH", path, body, kind=MERGE)

    def delete(self, path: str, body: Object | None = None) -> None:
        """Delete an object if it is there.

        Raises:
            Refused: the API server would not.
        """
        answer = self.ask("DELETE", path, body)
        if not answer.ok and answer.status_code != 404:
            raise Refused(f"DELETE {path}: {answer.status_code} {answer.text}", answer.status_code)

    def watch(self, path: str, since: str, seconds: int = 30) -> Iterator[tuple[str, Object]]:
        """Changes of a list since one of its versions, for so many seconds at most.

        Raises:
            Refused: the API server would not, or broke off.
        """
        query = f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={since}"
        with self.ask(
            "GET", f"{query}&timeoutSeconds={seconds}", stream=True, timeout=(10, seconds + 30)
        ) as answer:
            if not answer.ok:
                raise Refused(f"watching {path}: {answer.text}", answer.status_code)
            try:
                for line in answer.iter_lines(chunk_size=None):
                    change = json.loads(line)
                    yield change["type"], change["object"]
            except requests.RequestException as error:
                raise Refused(f"watching {path}: {error}") from error
