"""What looks for secrets finds each of them, wherever it is."""

import json
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dagster_sparkscale.watch.fleet.problems import Standing
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.spills import written
from tests.e2e.secrets import secrets_below, shown

TOKEN = "Zs3cret-t0ken-of-a-driver_0123456789abcdefABC"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (kept := tmp_path / "submission").mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for name, content in (("token", TOKEN.encode()), ("agent.key", key)):
        (kept / name).touch(mode=0o600)
        (kept / name).write_bytes(content)
    return tmp_path


def cursor() -> str:
    memory = Memory()
    memory.of("clicks")
    memory.fleet.problems["clicks"] = {"failed": Standing(1.0, 2.0, f"it said {TOKEN}")}
    return memory.dump({"clicks"})


def in_an_event(folder: Path) -> str:
    return json.dumps({"error": (folder / "submission" / "agent.key").read_text()})


@pytest.mark.parametrize(
    "text",
    [
        lambda _: f"a log with {TOKEN} in it",
        in_an_event,
        lambda _: f'{{"cursor": "{cursor()}"}}',
        lambda _: written("here", 5, {"clicks": {"at": [5], "reason": [TOKEN]}}),
    ],
    ids=["log", "key in JSON", "cursor", "minutes"],
)
@pytest.mark.parametrize("kept_by", ["file", "database"])
def test_it_is_found(folder: Path, text, kept_by: str) -> None:
    secrets = secrets_below(folder)
    assert shown(secrets, folder) == []
    place = folder / "place"
    if kept_by == "file":
        place.write_text(text(folder))
    else:
        connection = sqlite3.connect(place)
        connection.execute("CREATE TABLE events (body TEXT)")
        # Longer than a page of the database.
        connection.execute("INSERT INTO events VALUES (?)", ("x" * 3900 + " " + text(folder),))
        connection.commit()
        connection.close()
    assert shown(secrets, folder) == [str(place)]
