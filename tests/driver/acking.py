"""A source that knows what was taken of it, and the receiver that takes it."""

import base64
import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import pyspark

from tests.short_lives import CACHE
from tests.waiting import HANGS

SOURCE = Path(__file__).parent / "AckingReceiver.java"
_COMPILE = """
import base64, json, sys
from pyspark import SparkContext

SparkContext._ensure_initialized()
compiler = SparkContext._jvm.org.codehaus.janino.SimpleCompiler()
compiler.cook(open(sys.argv[1]).read())
found = compiler.getBytecodes()
print(json.dumps({name: base64.b64encode(found[name]).decode() for name in found}))
"""


def jar_of_the_receiver() -> Path:
    """`AckingReceiver`, compiled by the Janino that Spark brings: a JRE has no compiler. Kept for
    the next test, as that takes a JVM."""
    by = (pyspark.__version__, os.environ.get("JAVA_HOME"), SOURCE.read_text())
    of = hashlib.sha256(repr(by).encode()).hexdigest()
    jar = CACHE / f"acking-{of[:16]}.jar"
    if jar.exists():
        return jar
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, str(SOURCE)],
        **{"capture_output": True, "text": True, "check": False, "timeout": HANGS},
    )
    assert done.returncode == 0, done.stderr
    CACHE.mkdir(exist_ok=True)
    with (
        tempfile.NamedTemporaryFile(dir=CACHE, suffix=".part", delete=False) as draft,
        zipfile.ZipFile(draft, "w") as file,
    ):
        for name, code in json.loads(done.stdout.splitlines()[-1]).items():
            file.writestr(name.replace(".", "/") + ".class", base64.b64decode(code))
    Path(draft.name).replace(jar)  # at once: another process may look for it
    return jar


class Source:
    """Gives numbered records to whoever connects, some at a time, and gives those again that were
    not acknowledged when a connection ends.

    Args:
        pause: seconds between two lines of one connection.
    """

    RECORDS = 10
    """In a line."""

    def __init__(self, pause: float = 0.05) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._pause = pause
        self._lock = threading.Lock()
        self._again: list[list[int]] = []
        self._next = 0
        self.acknowledged: set[int] = set()
        self._flows = True
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self) -> None:
        """Give nothing new any more."""
        self._flows = False

    @property
    def all_taken(self) -> bool:
        """Whether all it gave was acknowledged."""
        with self._lock:
            return not self._again and len(self.acknowledged) == self._next

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _take(self) -> list[int] | None:
        with self._lock:
            if self._again:
                return self._again.pop(0)
            if not self._flows:
                return None
            first, self._next = self._next, self._next + self.RECORDS
            return list(range(first, self._next))

    def _serve(self, connection: socket.socket) -> None:
        answers = connection.makefile("r")
        while True:
            time.sleep(self._pause)
            records = self._take()
            if records is None:
                if self._gone(connection):
                    return
                continue
            try:
                connection.sendall((" ".join(map(str, records)) + "\n").encode())
                stored = answers.readline() == "stored\n"
            except OSError:
                stored = False
            with self._lock:
                if stored:
                    self.acknowledged.update(records)
                else:
                    self._again.append(records)
            if not stored:
                return

    @staticmethod
    def _gone(connection: socket.socket) -> bool:
        try:
            return connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._listening.close()
        for connection in self._connections:
            connection.close()
