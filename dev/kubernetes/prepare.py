"""What a pod's container is started with: its mounts, its command, its environment."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.kubernetes import images
from dev.kubernetes.api import Object
from dev.kubernetes.containers import Specification
from dev.kubernetes.images import Mount
from dev.kubernetes.volumes import Missing, Sources, expand, fill, user_of

HOSTS, MESSAGE = "hosts", "message"
"""Names of files in a pod's folder: the names it knows others by, and its last words."""


def mounts(spec: Object, folder: Path, sources: Sources) -> list[Mount]:
    """All that is mounted into the container; what the volumes hold is made in `folder`.

    Raises:
        Missing: an object that a volume comes from is not there; says so as a kubelet does.
        Refused: the API server does not say.
    """
    container = spec["containers"][0]
    places: dict[str, Path] = {}
    for volume in spec.get("volumes") or []:
        try:
            place = folder / "volumes" / volume["name"]
            places[volume["name"]] = fill(volume, place, sources)
        except Missing as missing:
            said = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}'
            raise Missing(said) from missing
    (folder / MESSAGE).write_bytes(b"")
    (folder / MESSAGE).chmod(0o666)
    message = container.get("terminationMessagePath") or "/dev/termination-log"
    own = [Mount(str(folder / HOSTS), "/etc/hosts"), Mount(str(folder / MESSAGE), message)]
    for each in container.get("volumeMounts") or []:
        source = places[each["name"]] / each.get("subPath", "")
        if not source.exists():
            source.mkdir(parents=True)
        own.append(Mount(str(source), each["mountPath"], bool(each.get("readOnly"))))
    # What is inside another comes after it.
    return [*images.mounts(), *sorted(own, key=lambda each: each.target.count("/"))]


def specification(
    pod: Object,
    image: Mapping[str, str],
    given: Mapping[str, str],
    mounts: Sequence[Mount],
    api_server: str,
) -> Specification:
    """
    Args:
        image: the image's environment.
        given: the pod's own.
        api_server: its address.
    """
    container, name = pod["spec"]["containers"][0], pod["metadata"]["name"]
    host = pod["spec"].get("hostname") or name
    cluster = {"KUBERNETES_SERVICE_HOST": api_server, "KUBERNETES_SERVICE_PORT": "443"}
    command = container.get("command") or [images.ENTRYPOINT]
    words = [*command, *(container.get("args") or [])]
    return Specification(
        pod=pod["metadata"]["uid"],
        hostname=host,
        command=[expand(word, given) for word in words],
        environment={**image, "HOSTNAME": host, **cluster, **given},
        folder=container.get("workingDir") or images.FOLDER,
        mounts=mounts,
        user=user_of(pod["spec"]),
    )


def rewrite(file: Path, text: str) -> None:
    """Have a file say something else, in place, for it is mounted into a pod. Whoever reads it
    meanwhile finds one of both, never nothing: Java remembers for seconds that a host is unknown.
    """
    with open(file, "r+b" if file.exists() else "wb", buffering=0) as written:
        written.write(text.encode())
        written.truncate()
