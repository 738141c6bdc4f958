"""Tells whoever submitted the driver where its agent is."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def announce(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as JSON, for the file's user only. It appears whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def url_of(host: str, port: int, tls: bool = False) -> str:
    """The address of an agent, also on a host given as an IPv6 address."""
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
