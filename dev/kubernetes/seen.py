"""What there is of one kind of object, kept up to date by watching."""

import threading
from collections.abc import Callable

from dev.kubernetes.api import Api, Object, Refused


class Seen:
    """All objects of one kind, as they were a moment ago."""

    def __init__(self, api: Api, path: str, changed: Callable[[], None]) -> None:
        self._api, self._path, self._changed = api, path, changed
        self._objects: dict[str, Object] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watching {path}", daemon=True)
        self._thread.start()

    def all(self) -> list[Object]:
        """In the order in which they were created."""
        objects = list(self._objects.values())
        return sorted(objects, key=lambda each: str(each["metadata"]["creationTimestamp"]))

    def get(self, uid: str) -> Object | None:
        return self._objects.get(uid)

    def close(self) -> None:
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                self._list_and_watch()
            except Refused:
                self._ended.wait(0.2)  # the API server is away, or has forgotten that version

    def _list_and_watch(self) -> None:
        listed = self._api.get(self._path)
        if listed is None:
            raise Refused(f"{self._path} is not served")
        self._objects = {each["metadata"]["uid"]: each for each in listed["items"]}
        self._changed()
        version = listed["metadata"]["resourceVersion"]
        while not self._ended.is_set():
            for kind, found in self._api.watch(self._path, version):
                if kind == "ERROR":
                    raise Refused(str(found), int(found.get("code", 0)))
                version = found["metadata"]["resourceVersion"]
                if kind == "BOOKMARK":
                    continue
                uid = found["metadata"]["uid"]
                if kind == "DELETED":
                    self._objects.pop(uid, None)
                else:
                    self._objects[uid] = found
                self._changed()
