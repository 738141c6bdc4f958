"""What a pod's container gets from the API: environment, files, the objects they come from."""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dev.kubernetes.api import Api, Object

_FILE_MODE = 0o644


class Missing(RuntimeError):
    """An object that a pod names is not there; says so as a kubelet does."""


class Sources:
    """Secrets, ConfigMaps and tokens of the namespace of one pod."""

    def __init__(self, api: Api, pod: Object, address: str) -> None:
        self._api, self._pod, self._address = api, pod, address
        self._namespace = f"/api/v1/namespaces/{pod['metadata']['namespace']}"

    @property
    def user(self) -> int:
        return user_of(self._pod["spec"])

    def read(self, kind: str, name: str, optional: bool) -> dict[str, bytes]:
        """The entries of a Secret or ConfigMap (`kind` as in its path).

        Raises:
            Missing: there is none, and it is not optional.
            Refused: the API server does not say.
        """
        found = self._api.get(f"{self._namespace}/{kind}/{name}")
        if found is None:
            if optional:
                return {}
            raise Missing(f'{kind[:-1]} "{name}" not found')
        if kind == "secrets":
            return {key: base64.b64decode(each) for key, each in (found.get("data") or {}).items()}
        texts = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        binary = found.get("binaryData") or {}
        return texts | {key: base64.b64decode(each) for key, each in binary.items()}

    def claimed(self, name: str) -> Path:
        """The folder of a claim's volume, which is one of this machine (`hostPath`).

        Raises:
            Missing: there is no such claim, or no volume for it yet.
            Refused: the API server does not say.
        """
        claim = self._api.get(f"{self._namespace}/persistentvolumeclaims/{name}")
        if claim is None:
            raise Missing(f'persistentvolumeclaim "{name}" not found')
        if claim.get("status", {}).get("phase") != "Bound":
            raise Missing(f'persistentvolumeclaim "{name}" is not bound')
        volume = self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}") or {}
        return Path(volume["spec"]["hostPath"]["path"])

    def token(self, asked: Mapping[str, Any]) -> bytes:
        """A token of the pod's service account.

        Raises:
            Refused: the API server gives none.
        """
        account = self._pod["spec"].get("serviceAccountName", "default")
        metadata = self._pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1"}
        specification: dict[str, Any] = {
            "expirationSeconds": asked.get("expirationSeconds", 3607),
            "boundObjectRef": {**bound, "name": metadata["name"], "uid": metadata["uid"]},
        }
        if asked.get("audience"):
            specification["audiences"] = [asked["audience"]]
        path = f"{self._namespace}/serviceaccounts/{account}/token"
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        made = self._api.create(path, {**kind, "spec": specification})
        token: str = made["status"]["token"]
        return token.encode()

    def field(self, path: str) -> str:
        """What a field of the pod holds, by its path in the downward API."""
        if path == "status.podIP":
            return self._address
        if path == "status.hostIP":
            return str(self._pod.get("status", {}).get("hostIP", ""))
        if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
            return str((self._pod["metadata"].get(found[1]) or {}).get(found[2], ""))
        value: Any = self._pod
        for part in path.split("."):
            value = (value or {}).get(part)
        if isinstance(value, dict):
            return "\n".join(f'{key}="{each}"' for key, each in value.items())
        return "" if value is None else str(value)

    def resource(self, named: Mapping[str, Any]) -> str:
        resources = self._pod["spec"]["containers"][0].get("resources") or {}
        kind, _, name = named["resource"].partition(".")
        return str((resources.get(kind) or {}).get(name, "0"))


def user_of(spec: Object) -> int:
    """Who a pod's container runs as. The image's own is root."""
    container = spec["containers"][0].get("securityContext") or {}
    pod = spec.get("securityContext") or {}
    return int(container.get("runAsUser", pod.get("runAsUser", 0)))


def environment(container: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    """What a container's `envFrom` and `env` come to.

    Raises:
        Missing: an object or a key in it is not there.
        Refused: the API server does not say.
    """
    made: dict[str, str] = {}
    for each in container.get("envFrom") or []:
        for field, kind in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if (named := each.get(field)) is not None:
                entries = sources.read(kind, named["name"], bool(named.get("optional")))
                prefix = each.get("prefix", "")
                made.update({prefix + key: value.decode() for key, value in entries.items()})
    for each in container.get("env") or []:
        value = _value(each, sources)
        if value is not None:
            made[each["name"]] = expand(value, made)
    return made


def _value(each: Mapping[str, Any], sources: Sources) -> str | None:
    given = each.get("valueFrom")
    if not given:
        return str(each.get("value") or "")
    if (named := given.get("fieldRef")) is not None:
        return sources.field(named["fieldPath"])
    if (named := given.get("resourceFieldRef")) is not None:
        return sources.resource(named)
    for field, kind in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if (named := given.get(field)) is not None:
            optional = bool(named.get("optional"))
            entries = sources.read(kind, named["name"], optional)
            if named["key"] in entries:
                return entries[named["key"]].decode()
            if optional:
                return None
            raise Missing(f"couldn't find key {named['key']} in {kind[:-1]} {named['name']}")
    raise Missing(f"{sorted(given)} of {each['name']} is not known here")


def expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` in a command or in a value, as Kubernetes has it: what is unknown stays. Two `$`
    become one."""
    found = r"\$(?:(\$)|\(([^)]*)\))"
    return re.sub(found, lambda m: m[1] or environment.get(m[2], m[0]), text)


def fill(volume: Mapping[str, Any], place: Path, sources: Sources) -> Path:
    """Make what a volume holds, in the folder `place`; returns what is to be mounted.

    Raises:
        Missing: an object it comes from is not there.
        Refused: the API server does not say.
    """
    place.mkdir(parents=True, exist_ok=True)
    if (path := volume.get("hostPath")) is not None:
        return Path(path["path"])
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        return sources.claimed(claim["claimName"])
    if "emptyDir" in volume:
        place.chmod(0o777)
        return place
    for relative, content, mode, owner in _files(volume, sources):
        file = place / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.touch(0o600)
        file.write_bytes(content)
        file.chmod(mode)
        os.chown(file, owner, -1)
    place.chmod(0o755)
    return place


def _files(volume: Mapping[str, Any], sources: Sources) -> Iterator[tuple[str, bytes, int, int]]:
    """Path, content, mode and owner of each file of a volume or of a part of a projected one."""
    if (source := volume.get("projected")) is not None:
        for each in source.get("sources") or []:
            mode = {"defaultMode": source.get("defaultMode")}
            parts = {name: mode | part for name, part in each.items()}
            yield from _files(parts, sources)
    for field, kind in (("configMap", "configmaps"), ("secret", "secrets")):
        if (source := volume.get(field)) is not None:
            name = source.get("name") or source.get("secretName")
            entries = sources.read(kind, name, bool(source.get("optional")))
            for chosen in _chosen(source, entries, f"{kind[:-1]} {name}"):
                yield *chosen, 0
    if (source := volume.get("serviceAccountToken")) is not None:
        # For its user alone: the one thing in a volume that is not root's.
        yield source["path"], sources.token(source), 0o600, sources.user
    if (source := volume.get("downwardAPI")) is not None:
        for item in source.get("items") or []:
            if (named := item.get("fieldRef")) is not None:
                text = sources.field(named["fieldPath"])
            else:
                text = sources.resource(item["resourceFieldRef"])
            yield item["path"], text.encode(), _mode(source, item), 0


def _chosen(
    source: Mapping[str, Any], entries: Mapping[str, bytes], whose: str
) -> Iterator[tuple[str, bytes, int]]:
    items = source.get("items") or [{"key": key, "path": key} for key in entries]
    for item in items:
        if item["key"] not in entries:
            if source.get("optional"):
                continue
            raise Missing(f"references non-existent {whose} key: {item['key']}")
        yield item["path"], entries[item["key"]], _mode(source, item)


def _mode(source: Mapping[str, Any], item: Mapping[str, Any]) -> int:
    for each in (item.get("mode"), source.get("defaultMode")):
        if each is not None:
            return int(each)
    return _FILE_MODE
