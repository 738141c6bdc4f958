"""One namespace of an API server in memory, with its nodes and its garbage collector.

The library's own `Api` asks it: what it answers are the status codes, reasons and objects of a real
one, as far as the library goes by them. It knows no watches, quotas or defaults.
"""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from dagster_sparkscale.clusters.kubernetes.access import Access
from dagster_sparkscale.clusters.kubernetes.api import Api

Object = dict[str, Any]

NAMESPACE = "streams"
MADE_AT = "2027-01-15T07:59:00Z"
DELETED_AT = "2999-01-01T00:00:00Z"
"""Never overdue."""


class Server:
    """Keeps the objects of a namespace.

    Args:
        prompt: whether nodes act right after each call; else only when they are told to.
    """

    def __init__(self, prompt: bool = True) -> None:
        self.prompt = prompt
        self.objects: dict[tuple[str, str], Object] = {}
        self.nodes: list[Object] = []
        self.ran: list[str] = []
        """The pods that nodes have started, one after the other."""
        self.silent: set[str] = set()
        """Pods whose node is cut off: it ends nothing, and says nothing."""
        self.logs: dict[str, str] = {}
        self.calls: list[str] = []
        self._version = 0
        self._rest: dict[str, list[Object]] = {}
        """What is left of lists of which a page was asked for, by the token to go on with."""

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None
    ) -> tuple[int, bytes]:
        """The status code and content by which a request is answered."""
        code, found = self._answer(method, path, query, copy.deepcopy(body) or {})
        if self.prompt:
            self.nodes_act()
        return code, found if isinstance(found, bytes) else json.dumps(found).encode()

    def names(self, kind: str) -> list[str]:
        return sorted(name for held, name in self.objects if held == kind)

    def running(self) -> list[str]:
        """The pods whose container runs."""
        return [
            name
            for (kind, name), each in self.objects.items()
            if kind == "pods" and each["status"]["phase"] == "Running"
        ]

    def loses_node(self, pod: str) -> None:
        """The node of a pod is cut off, and the pod was to be deleted long since."""
        self.silent.add(pod)
        self.objects["pods", pod]["status"]["phase"] = "Running"
        self.objects["pods", pod]["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"

    def forgets(self) -> None:
        """Nothing is known any more of lists that were begun."""
        self._rest.clear()

    def nodes_act(self) -> None:
        """Pods that are deleted go, and those start that have all that they mount."""
        for (kind, name), pod in list(self.objects.items()):
            if kind != "pods" or name in self.silent:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                del self.objects[kind, name]
            elif pod["status"]["phase"] == "Pending" and self._has_its_volumes(pod):
                self.ran.append(name)
                pod["spec"]["nodeName"] = "node-1"
                self.tells(name, "Running", {"running": {}})

    def tells(self, pod: str, phase: str, state: Object) -> None:
        """A node says what became of a driver's container."""
        told = {"name": "driver", "state": state, "started": True}
        self.objects["pods", pod]["status"] = {"phase": phase, "containerStatuses": [told]}
        self._changed(self.objects["pods", pod])

    def ends(self, pod: str, code: int = 1) -> None:
        terminated = {"exitCode": code, "reason": "Error", "finishedAt": "2027-01-15T07:59:30Z"}
        self.tells(pod, "Succeeded" if code == 0 else "Failed", {"terminated": terminated})

    def settles(self) -> None:
        """Time passes: what nobody owns any more is deleted, and nodes act."""
        there = {each["metadata"]["uid"] for each in self.objects.values()}
        for (kind, name), each in list(self.objects.items()):
            owners = each["metadata"].get("ownerReferences") or ()
            if owners and not any(owner["uid"] in there for owner in owners):
                self._remove(kind, name)
        self.nodes_act()

    def _has_its_volumes(self, pod: Object) -> bool:
        for volume in pod["spec"].get("volumes", ()):
            for kind, key, named in (
                ("secrets", "secret", "secretName"),
                ("configmaps", "configMap", "name"),
            ):
                if key in volume and (kind, volume[key][named]) not in self.objects:
                    return False
        return True

    def _changed(self, each: Object) -> Object:
        self._version += 1
        each["metadata"]["resourceVersion"] = str(self._version)
        return each

    def _answer(
        self, method: str, path: str, query: Mapping[str, str], body: Object
    ) -> tuple[int, Object | bytes]:
        if path.endswith("/selfsubjectaccessreviews"):
            return 201, {"status": {"allowed": True}}
        if path in ("/api/v1/nodes", "/api/v1/pods"):
            listed = self.nodes if path.endswith("nodes") else self._found("pods", {})
            return self._page(listed, query)
        root, _, rest = path.partition("/namespaces/")
        namespace, kind, name, part = [*map(unquote, rest.split("/")), "", "", ""][:4]
        if namespace != NAMESPACE:
            return _status(404, "NotFound", f'namespaces "{namespace}" not found')
        kind = f"{root.removeprefix('/apis/')}/{kind}" if root.startswith("/apis/") else kind
        key = (kind, name)
        self.calls.append(f"{method} {kind}{f'/{name}' if name else ''}")
        if method == "POST":
            return self._create(kind, body, query)
        if not name:
            found = self._found(kind, query)
            if method == "DELETE":
                for each in found:
                    self._remove(kind, each["metadata"]["name"], body)
                return 200, {"items": found}
            return self._page(found, query)
        there = self.objects.get(key)
        if there is None:
            return _status(404, "NotFound", f'{kind} "{name}" not found')
        if part == "log":
            lines = self.logs.get(name, "").splitlines()[-int(query["tailLines"]) :]
            return 200, "\n".join(lines).encode()
        return self._on_one(method, key, there, body)

    def _page(self, found: list[Object], query: Mapping[str, str]) -> tuple[int, Object]:
        """A page of a list, which is of the moment when its first one was asked for."""
        if (token := query.get("continue")) is not None:
            if token not in self._rest:
                return _status(410, "Expired", "The provided continue parameter is too old")
            found = self._rest.pop(token)
        most = int(query.get("limit") or len(found))
        if len(found) <= most:
            return 200, {"items": found, "metadata": {}}
        token = f"from {found[most]['metadata']['name']}"
        self._rest[token] = copy.deepcopy(found[most:])
        return 200, {"items": found[:most], "metadata": {"continue": token}}

    def _create(
        self, kind: str, body: Object, query: Mapping[str, str]
    ) -> tuple[int, Object | bytes]:
        name = body["metadata"]["name"]
        if (kind, name) in self.objects:
            return _status(409, "AlreadyExists", f'{kind} "{name}" already exists')
        self._changed(body)["metadata"] |= {
            "uid": f"uid-{self._version}",
            "creationTimestamp": MADE_AT,
        }
        if kind == "pods":
            body["status"] = {"phase": "Pending"}
        if query.get("dryRun") != "All":
            self.objects[kind, name] = body
        return 201, body

    def _on_one(
        self, method: str, key: tuple[str, str], there: Object, body: Object
    ) -> tuple[int, Object | bytes]:
        metadata = there["metadata"]
        if method == "PUT":
            if body["metadata"].get("resourceVersion") != metadata["resourceVersion"]:
                return _status(409, "Conflict", "the object has been modified")
            kept = {name: metadata[name] for name in ("uid", "creationTimestamp")}
            body["metadata"] |= kept
            self.objects[key] = self._changed(body)
        elif method == "PATCH":
            there.setdefault("data", {}).update(body["data"])
            self._changed(there)
        elif method == "DELETE":
            uid = (body.get("preconditions") or {}).get("uid")
            if uid not in (None, metadata["uid"]):
                return _status(409, "Conflict", "the UID in the precondition does not match")
            self._remove(*key, body)
            return 200, there
        return 200, self.objects[key]

    def _remove(self, kind: str, name: str, options: Object | None = None) -> None:
        each = self.objects[kind, name]
        by_force = (options or {}).get("gracePeriodSeconds") == 0
        if kind == "pods" and each["status"]["phase"] in ("Running", "Unknown") and not by_force:
            # Its node has to end it first.
            each["metadata"].setdefault("deletionTimestamp", DELETED_AT)
        else:
            del self.objects[kind, name]

    def _found(self, kind: str, query: Mapping[str, str]) -> list[Object]:
        held = [each for (of, _), each in sorted(self.objects.items()) if of == kind]
        return [
            each
            for each in held
            if _fits(query.get("labelSelector"), each["metadata"].get("labels", {}).get)
            and _fits(query.get("fieldSelector"), lambda path, each=each: _field(each, path))
        ]


class Client(Api):
    """The library's way to it, of one process.

    Args:
        before: called before each request, with its method and path.
        after: called after it, before its answer arrives.
    """

    def __init__(
        self,
        server: Server,
        before: Callable[[str], None] = lambda call: None,
        after: Callable[[str], None] = lambda call: None,
    ) -> None:
        super().__init__(Access("https://in.memory", True, dict), NAMESPACE)
        self.server, self.before, self.after = server, before, after

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> bytes:
        call = f"{method} {path.partition(f'/{NAMESPACE}/')[2]}"
        self.before(call)
        code, content = self.server.answer(method, path, query or {}, body and dict(body))
        self.after(call)
        if 200 <= code < 300:
            return content
        raise self._error(method, path, code, content)


def _status(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


def _fits(selector: str | None, value: Callable[[str], str | None]) -> bool:
    for term in (selector or "").split(","):
        key, equals, wanted = term.partition("=")
        if key and (value(key) is None or (equals and value(key) != wanted)):
            return False
    return True


def _field(each: Object, path: str) -> str | None:
    for key in path.split("."):
        each = each.get(key) or {}
    return str(each) if each else None
