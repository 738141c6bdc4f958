"""python -m dev.s3 [--port PORT] [--files FOLDER]

Runs an S3 server on the loopback interface until SIGTERM or Ctrl-C, and prints its URL: moto's, in
memory, or VersityGW, which keeps the objects in a folder.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from dev.daemons import ended_by_signals
from dev.s3.files import in_files


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m dev.s3",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--port", type=int, default=0, help="0, the default: any free one")
    options.add_argument("--tethered", action="store_true", help="end when standard input does")
    options.add_argument(
        "--slow-down", type=int, default=0, metavar="N", help="put the first N copies of files off"
    )
    options.add_argument("--files", type=Path, metavar="FOLDER", help="VersityGW's, in files here")
    given = options.parse_args()
    if given.files and given.slow_down:
        options.error("--slow-down is moto's: give it without --files")
    ended, files, port = ended_by_signals(given.tethered), given.files, given.port
    with in_files(files, port) if files else _in_memory(port, given.slow_down) as url:
        print(url, flush=True)
        ended.wait()
    return 0


@contextmanager
def _in_memory(port: int, slow_down: int) -> Iterator[str]:
    server = _server(port, slow_down)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{server.host}:{server.port}"
    server.shutdown()


def _server(port: int, slow_down: int) -> Any:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        def handle_expect_100(self) -> bool:
            # Werkzeug says so itself. Amazon's SDK takes a second time for the answer.
            return True

        def log_request(self, *_: Any) -> None:
            """Not a line for each: a batch makes many."""

    moto, copies = DomainDispatcherApplication(create_backend_app), count()

    def app(asked: dict[str, Any], answer: Callable[..., Any]) -> Iterable[bytes]:
        if "HTTP_X_AMZ_COPY_SOURCE" in asked and next(copies) < slow_down:
            answer("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>"]
        return moto(asked, answer)  # type: ignore[no-any-return]

    return make_server("127.0.0.1", port, app, threaded=True, request_handler=Handler)


if __name__ == "__main__":
    sys.exit(main())
