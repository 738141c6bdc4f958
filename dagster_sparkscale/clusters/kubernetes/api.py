"""The calls to Kubernetes' API that are needed: JSON as it is, errors in words.

Objects stay dicts: the typed client would cost every tracked run a second to import.

What must not change: a call that may have changed something is never repeated by itself; every call
ends in time; "there is none" is what the API server has said, never a call that failed.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import listing
from dagster_sparkscale.clusters.kubernetes.access import Access, access_to, stamp
from dagster_sparkscale.clusters.kubernetes.kept import Kept

Object = dict[str, Any]
T = TypeVar("T")

SECONDS = 15.0
"""Seconds for an answer."""
PUT_OFF = 2
"""Times that a question is put again which the API server had no time for."""
LONGEST_PAUSE = 5.0
"""Seconds for which it may say that it has none: where that is longer, others go on meanwhile."""
_CONNECTIONS = 16
_PART = 1 << 20
"""Bytes that are read at once, at most."""
LARGEST = 256 << 20
"""Bytes of an answer that are read: a page of objects of half a MB each."""
_RBAC, _OF_APPLICATIONS = "deploy/kubernetes/dagster.yaml", "deploy/kubernetes/applications.yaml"
_OF_DRIVERS = "deploy/kubernetes/driver.yaml"


class Unreachable(ClusterError):
    """The API server gave no answer, or none of use. It tells nothing of any stream."""


class Refused(ClusterError):
    """The API server has refused something."""

    def __init__(self, text: str, code: int, reason: str) -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason
        """Kubernetes' own word for it: `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`."""


class Api:
    """The API of one cluster, in one namespace: its verbs, and one way of asking below them. May be
    used from many threads at once."""

    def __init__(
        self, access: Access, namespace: str, anew: Callable[[], Access] | None = None
    ) -> None:
        """
        Args:
            anew: the access as it is declared by now: what it names (a file, a login) may be newer
                than what was read of it. None: it can't be another.
        """
        self.namespace = namespace
        self.changed_at = -math.inf
        """When something was last changed by this process, by `time.monotonic()`."""
        self.kept = Kept()
        self._anew = anew
        self._take(access)

    def _take(self, access: Access) -> None:
        import urllib3

        self.access = access
        options: dict[str, Any] = {"maxsize": _CONNECTIONS, "retries": False, **access.tls}
        self._pool: urllib3.PoolManager = (
            urllib3.ProxyManager(access.proxy, **options)
            if access.proxy
            else urllib3.PoolManager(**options)
        )

    def get(self, kind: str, name: str) -> Object | None:
        """The object; None: there is none."""
        try:
            return self._call("GET", self.path(kind, name))
        except Refused as refusal:
            if refusal.code == 404 and refusal.reason == "NotFound":
                return None
            raise

    def find(self, kind: str, **query: str) -> list[Object]:
        """All objects that `query` asks for, such as `labelSelector=`."""
        return self.listed(self.path(kind), lambda each: each, **query)

    def listed(self, path: str, keep: Callable[[Object], T | None], **query: str) -> list[T]:
        """What `keep` keeps of each object of a list, page by page: whatever their number, no more
        than a page of whole ones is held.

        Raises:
            Unreachable: the list did not come to its end.
        """

        def ask(page: Mapping[str, str]) -> Object:
            try:
                return self._call("GET", path, page)
            except Refused as refusal:
                if refusal.code == 410 and "continue" in page:
                    raise listing.Expired from None
                raise

        try:
            return listing.listed(ask, query, keep)
        except listing.Unfinished as error:
            raise Unreachable(f"{self._who} gave no whole list of {path}: {error}") from None

    def create(self, kind: str, manifest: Mapping[str, Any], **query: str) -> Object:
        return self._call("POST", self.path(kind), query, manifest)

    def replace(self, kind: str, name: str, manifest: Mapping[str, Any]) -> Object:
        """Put it in place of the one whose resourceVersion it has."""
        return self._call("PUT", self.path(kind, name), None, manifest)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> Object:
        return self._call("PATCH", self.path(kind, name), None, change)

    def delete(
        self, kind: str, name: str, uid: str | None = None, grace: int | None = None
    ) -> bool:
        """Delete it; whether there was one (of that uid)."""
        options: Object = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self._call("DELETE", self.path(kind, name), None, options)
        except Refused as refusal:
            if refusal.code == 404 or (refusal.code == 409 and uid is not None):
                return False
            raise
        return True

    def delete_all(self, kind: str, grace: int | None = None, **query: str) -> None:
        """Delete all objects that `query` asks for."""
        # With a body, options that stand in the query are passed over.
        options: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        self._call("DELETE", self.path(kind), query, options)

    def text(self, kind: str, name: str, part: str, **query: str) -> str:
        """What a part of an object answers that is no JSON, such as a pod's `log`."""
        path = f"{self.path(kind, name)}/{part}"
        return self._answer("GET", path, query, None).decode("utf-8", "replace")

    def nodes(self, keep: Callable[[Object], T | None]) -> list[T]:
        """What is kept of the cluster's nodes."""
        return self.listed("/api/v1/nodes", keep)

    def pods_everywhere(self, keep: Callable[[Object], T | None]) -> list[T]:
        """What is kept of the pods of all namespaces that have not ended."""
        running = "status.phase!=Succeeded,status.phase!=Failed"
        return self.listed("/api/v1/pods", keep, fieldSelector=running)

    def may(self, verb: str, resource: str) -> bool:
        """Whether whom the API server takes us for is allowed that in the namespace.

        Args:
            resource: with what is below it, such as `pods/log`; what is not Kubernetes' own behind
                its group, such as `spark.apache.org:sparkapplications`.
        """
        group, _, own = resource.rpartition(":")
        kind, _, part = own.partition("/")
        asked = {"namespace": self.namespace, "verb": verb, "group": group}
        asked |= {"resource": kind, "subresource": part}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status = self._call("POST", path, None, review).get("status") or {}
        return status.get("allowed") is True

    def lacks_its_namespace(self) -> bool:
        """Whether it is known that there is no namespace of that name: it may not be for us to
        know."""
        path = f"/api/v1/namespaces/{quote(self.namespace, safe='')}"
        try:
            self._call("GET", path)
        except Refused as refusal:
            return refusal.code == 404 and refusal.reason == "NotFound"
        return False

    def path(self, kind: str, name: str = "") -> str:
        """
        Args:
            kind: in the plural; what is not Kubernetes' own behind its group and version:
                `sparkoperator.k8s.io/v1beta2/sparkapplications`.
        """
        group, _, plural = kind.rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        path = f"{root}/namespaces/{quote(self.namespace, safe='')}/{plural}"
        return f"{path}/{quote(name, safe='')}" if name else path

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Object:
        try:
            answer = self._answer(method, path, query, body)
        finally:
            if method != "GET":
                self.changed_at = time.monotonic()
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"{self._who} answered something that is not Kubernetes' API")
        return found

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> bytes:
        status, content = self._ask(method, path, query, body)
        if status == 401 and self._anew is not None:
            # Who is not known has changed nothing: it is safe to ask again.
            try:
                self._take(self._anew())
            except ClusterError as error:
                raise Unreachable(str(error)) from None
            status, content = self._ask(method, path, query, body)
        if 200 <= status < 300:
            return content
        raise self._error(method, path, status, content)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, bytes]:
        """The status code and content of the answer."""
        import urllib3
        from urllib3.exceptions import HTTPError, ProtocolError

        url = f"{self.access.url}{path}" + (f"?{urlencode(query)}" if query else "")
        known_by = self.access.headers()
        # Python's own error would show the token.
        if not all(each.isascii() and each.isprintable() for each in known_by.values()):
            raise Unreachable(
                f"the token for {self._who} has characters that no token has, such as a line break"
            )
        headers = {**known_by, "Accept": "application/json"}
        if body is not None:
            merge = "application/merge-patch+json"
            headers["Content-Type"] = merge if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        again = method == "GET"
        put_off = PUT_OFF if method == "GET" else 0
        while True:
            try:
                deadline = time.monotonic() + SECONDS
                answer = self._pool.request(
                    method,
                    url,
                    body=data,
                    headers=headers,
                    timeout=urllib3.Timeout(SECONDS),
                    preload_content=False,
                )
                content = self._read(answer, deadline)
                # In the middle of a long list all that has come of it would be lost.
                pause = _pause(answer.headers.get("Retry-After")) if answer.status == 429 else None
                if put_off and pause is not None:
                    put_off -= 1
                    time.sleep(pause)
                    continue
                return answer.status, content
            except HTTPError as error:
                # It may have closed a connection that was kept open.
                if isinstance(error, ProtocolError) and again:
                    again = False
                    continue
                raise Unreachable(f"{self._who} gave no answer: {_plain(error)}") from None

    def _read(self, answer: Any, deadline: float) -> bytes:
        """All of an answer. The client's own limit is for each part that comes."""
        parts, size = [], 0
        try:
            while part := answer.read1(_PART):
                parts.append(part)
                if (size := size + len(part)) > LARGEST:
                    raise Unreachable(f"{self._who} answered more than {LARGEST >> 20} MiB")
                if time.monotonic() > deadline:
                    raise Unreachable(f"{self._who} did not finish its answer in {SECONDS:g} s")
        except BaseException:
            answer.close()
            raise
        answer.release_conn()
        return b"".join(parts)

    def _error(self, method: str, path: str, code: int, data: bytes) -> ClusterError:
        try:
            status = json.loads(data)
        except (ValueError, RecursionError):
            status = {}
        status = status if isinstance(status, dict) else {}
        reason = str(status.get("reason") or "")
        said = str(status.get("message") or f"HTTP status {code}")[:500]
        if code == 401:
            return Unreachable(
                f"{self._who} does not know us ({said}): the token or certificate is wrong, or "
                "has run out"
            )
        # 408 is a proxy's: what it has passed on may be done yet.
        if code >= 500 or code in (408, 429):
            return Unreachable(f"{self._who} can't do it now: {said}")
        text = f"Kubernetes refused it: {said}"
        extension = path.startswith("/apis/") and "/namespaces/" in path
        if code == 404 and extension and not reason:
            text = f"there is no {path}: is the operator installed whose resources those are?"
        if code == 403 and "exceeded quota" not in said and "is forbidden: User" in said:
            role = _OF_APPLICATIONS if extension else _RBAC
            text += (
                f". The role in {role} has all that is needed: is it bound to this account, and "
                f"is there a namespace {self.namespace}?"
            )
        if code == 403 and "error looking up service account" in said:
            text += f". {_OF_DRIVERS} makes the one that drivers have by default"
        if code == 404 and "namespaces " in said:
            text += f": kubectl create namespace {self.namespace}, and apply deploy/kubernetes"
        return Refused(text, code, reason)

    @property
    def _who(self) -> str:
        return f"the API server {self.access.url}"


def _pause(after: str | None) -> float | None:
    """Seconds after which to ask again, by Retry-After; None: not soon, or that is not said."""
    seconds = float(after) if after is not None and re.fullmatch(r"\d{1,6}", after) else math.inf
    return seconds if seconds <= LONGEST_PAUSE else None


def _plain(error: Exception) -> str:
    """Without the objects that urllib3 names."""
    text = str(error)
    return (text.rpartition(">: ")[2] or type(error).__name__)[:300]


_lock = threading.Lock()


def api(kubeconfig: str | None, context: str | None, namespace: str | None) -> Api:
    """The API as it is declared; one for a process, so that its connections are kept open. Another
    once the kubeconfig has changed.

    Raises:
        ClusterError: no access is known.
    """
    with _lock:
        return _api(kubeconfig, context, namespace, stamp(kubeconfig))


@lru_cache(maxsize=8)
def _api(kubeconfig: str | None, context: str | None, namespace: str | None, _: object) -> Api:
    def anew() -> Access:
        return access_to(kubeconfig, context)

    access = anew()
    return Api(access, namespace or access.namespace or "default", anew)
