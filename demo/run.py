"""The demo: a cluster, three streams, a load that rises and falls, and Dagster with its UI.

    python -m demo.run              until Ctrl-C
    python -m demo.run --headless   until every stream was scaled up and down by tracked runs, the
                                    state of one cut into other partitions, and the receivers of one
                                    spread anew; exits with 1 if that did not happen in time
    python -m demo.run --kafka      with a fourth stream, which reads from a Kafka broker of its own
    python -m demo.run --pictures docs
                                    the same, and takes the README's pictures before it ends

All state is in .demo, which is fresh every time. Whatever ends the demo, every process it started
is ended, and demo-report.json is written.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from demo.play import ROOT, Demo, DemoFailed, clear_away_earlier, say, write_report


class Interrupted(BaseException):
    """Ctrl-C, or a signal that means the same. No fault handler on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Three streams that scale up and down.")
    parser.add_argument("--headless", action="store_true", help="end by itself, with a verdict")
    parser.add_argument("--kafka", action="store_true", help="a fourth stream, from Kafka")
    parser.add_argument(
        "--deadline",
        type=float,
        default=480,
        help="seconds from the beginning of the load on; only if headless",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=1.0,
        help="on a slow machine: how many times as long it waits for what starts",
    )
    parser.add_argument("--port", type=int, default=3000, help="of the UI, if it is free")
    parser.add_argument("--state", type=Path, default=ROOT / ".demo", help="folder; made afresh")
    parser.add_argument("--report", type=Path, default=ROOT / "demo-report.json")
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help="headless, and save pictures of the UI there; needs Chromium or Chrome",
    )
    options = parser.parse_args(argv)
    state = options.state.resolve()
    headless = options.headless or options.pictures is not None
    _interrupts.clear()

    _have_signals(_interrupt)
    demo: Demo | None = None
    code = 0
    try:
        clear_away_earlier(state)
        options.report.unlink(missing_ok=True)
        camera = _camera(options.pictures) if options.pictures else None
        demo = Demo(
            state,
            headless=headless,
            kafka=options.kafka,
            deadline=options.deadline,
            patience=options.patience,
            port=options.port,
            go_on=_raise_what_was_swallowed,
        )
        demo.play()
        if camera:
            camera(demo.url, demo.streams)
    except (Interrupted, Exception) as failure:
        # Native code may have made a failure of its own of the interrupt, as pydantic's does while
        # classes are being made.
        ended_by = failure.number if isinstance(failure, Interrupted) else sum(_interrupts[:1])
        if ended_by:
            say(f"{signal.Signals(ended_by).name}: ending everything")
            # An end by Ctrl-C is how the demo is meant to end, unless it was to end by itself.
            code = 0 if ended_by == signal.SIGINT and not headless else 128 + ended_by
        else:
            code = 1
            say(f"FAILED: {failure}")
            if not isinstance(failure, DemoFailed):
                kind = type(failure).__name__
                say(f"This was not foreseen ({kind}); logs are in {state / 'logs'}")
    finally:
        _have_signals(_already_ending)
        left = demo.end() if demo else []
        if demo:
            write_report(options.report, demo.report, demo.streams, demo.begun)
    if demo is None:
        return code
    if left:
        say("Still running, although everything was to be ended:\n" + "\n".join(left))
        return code or 1
    say("All processes have ended.")
    return code


def _camera(folder: Path) -> Callable[[str, Sequence[str]], None]:
    """What takes the pictures of the UI at a URL, of streams.

    Raises:
        DemoFailed: no browser, or no such folder. Better now than after all these minutes.
    """
    # Only here: the demo itself needs neither a browser nor playwright.
    from demo.pictures import NotSeen, take
    from dev import browser

    if not folder.is_dir():
        raise DemoFailed(f"--pictures {folder}: there is no such folder")
    found = browser.browser()
    if found is None:
        raise DemoFailed(browser.HELP)

    def pictures(url: str, streams: Sequence[str]) -> None:
        say("Taking pictures ...")
        try:
            taken = take(found, url, streams, folder)
        except NotSeen as missing:
            raise DemoFailed(str(missing)) from missing
        say("Taken: " + ", ".join(str(path) for path in taken))

    return pictures


def _have_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Have that called by the signals that end the demo. Also where Ctrl-C is ignored at first, as
    in a process put into the background by a script; but what `nohup` has ignored stays so."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


_interrupts: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    raise Interrupted(number)


def _raise_what_was_swallowed() -> None:
    """A handler runs wherever Python is: what it raises within a call from native code, as when a
    class of pydantic's is being made, may be swallowed without a word."""
    if _interrupts:
        raise Interrupted(_interrupts[0])


def _already_ending(number: int, frame: FrameType | None) -> None:
    say("Ending already; this takes up to a minute.")


if __name__ == "__main__":
    sys.exit(main())
