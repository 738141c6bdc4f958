"""The driver: its agent, Spark, and the program, from the command line to the exit code."""

import atexit
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from .agent import Agent
from .backpressure.part import BackpressurePart
from .backpressure.rates import Rates
from .begin.announce import announce, url_of
from .begin.fence import FENCED, Fence, HadoopFile, Mark, Taken, mark_of
from .begin.once import AGAIN, ROLE, CannotTell, asking, begun_before
from .begin.options import Options, parse
from .begin.program import run
from .ending.reporter import WITHIN, EndReporter
from .ending.stopper import Stopper
from .kafka.part import KafkaPart
from .lineage.part import LineagePart
from .log import say
from .part import Core, Part
from .realtime.part import RealTimePart
from .receivers.part import ReceiversPart
from .server import Server
from .spark.jvm import active_context
from .spark.releases import say_where_asked_for
from .spark.session import CannotStart, create_context, lend_to_program
from .state.part import StatePart
from .tasks.part import TasksPart

STOP_WITHIN = 5.0
"""Seconds that Spark has to stop in, where the driver may not go on."""


def main(argv: Sequence[str] | None = None) -> int:
    """Start the agent and Spark, run the program, and return the driver's exit code."""
    options = parse(sys.argv[1:] if argv is None else argv)
    # Beside the announcement, which nobody cleans away while the driver runs.
    rates = Rates.prepare(options.announce.parent if options.announce else None)
    atexit.register(rates.close)  # what is registered first is done last: after Spark has ended
    core = Core(options)
    agent = Agent(core, compose(core, rates))
    reporter = EndReporter(options.announce, options.last_words)
    if (code := _refused(options, reporter)) is not None:
        return code

    def last(code: int) -> None:
        reporter.over(**agent.ended(*reporter.report.outcome(code)))

    stopper = Stopper(agent, reporter.stopped, last)
    stopper.heed_sigterm(options.term_seconds)
    try:
        server = Server(options.bind, options.port, agent, stopper.request, options.tls)
    except OSError as error:
        fault = f"cannot listen on {options.bind} port {options.port}: {error}"
        say(fault)
        reporter.raised(fault)
        return 1
    url = url_of(_host(options), server.server_port, options.tls is not None)
    server.start()
    say(f"agent of {options.stream}, epoch {options.epoch}, at {url}")

    fences: list[Fence] = []
    code = stopper.program_ended(_run(options, agent, stopper, reporter, url, fences))
    # Not before: what the program left running is finished by then. Where nobody has stopped it, it
    # may go on for as long as Spark is there, so the mark stays; its own stream is let in all the
    # same.
    if stopper.requested or active_context() is None:
        for fence in fences:
            fence.release()
    agent.admission.phase = "ended"
    last(code)
    return code


def compose(core: Core, rates: Rates) -> tuple[Part, ...]:
    """The parts of a driver's agent, which are named here alone."""
    receivers = ReceiversPart(core)
    core.executors.guard_by(receivers)
    # A query waits for its slots first: what is done for its state then, the next start need not.
    realtime, state = RealTimePart(core), StatePart(core)
    of_sources = BackpressurePart(core, rates), KafkaPart()
    return receivers, *of_sources, realtime, state, TasksPart(core), LineagePart(core)


def _refused(options: Options, reporter: EndReporter) -> int | None:
    """The exit code of a driver that may not begin, having told why; None: it may."""
    if options.begun is None:
        return None
    try:
        began = begun_before(json.loads(options.begun.read_bytes()), asking())
    except CannotTell as error:
        fault = (
            "it can't be told whether this start has begun before, by a ConfigMap that only one "
            f"driver can make: {error}; {ROLE}"
        )
        say(fault)
        reporter.raised(fault)
        return 1
    if began is None:
        return None
    fault = (
        f"this start has begun, or was ended, before, at {began} UTC. Somebody, such as an "
        "operator, has started it again, which only Dagster does: this driver ended before it "
        "touched anything"
    )
    say(fault)
    reporter.took()  # the first one may have, and has left no report, as its pod is gone
    reporter.raised(fault)
    return AGAIN


def _run(
    options: Options,
    agent: Agent,
    stopper: Stopper,
    reporter: EndReporter,
    url: str,
    fences: list[Fence],
) -> int:
    def tell() -> None:
        if options.announce is not None:
            announce(options.announce, agent.announcement(url, os.getpid(), socket.gethostname()))

    try:
        tell()
        context = create_context(options.stream, url, agent.properties)
        agent.attach(context)
        fences += _fence(options, context, reporter)
        for fence in fences:
            fence.outwait(options.outwait, lambda: stopper.requested)
        lend_to_program()
        stopper.hold_back_the_program()
        agent.structured.install()
        say_where_asked_for()
        try:
            tell()
        except OSError as error:
            # A full disk. Where the agent is stands there already, and the agent tells the rest.
            say(f"Spark's application id and pages cannot be told: {error}")
    except CannotStart as error:
        fault = f"Spark cannot be started: {error}"
        say(fault)
        reporter.raised(fault)
        return 1
    except Taken as error:
        reporter.fenced(str(error))
        return FENCED
    except Exception as error:
        say("Spark cannot be started:")
        traceback.print_exc()
        reporter.raised(error)
        return 1
    agent.admission.phase = "running"
    if stopper.requested:
        agent.admission.phase = "stopping"
        return 0

    def died(error: BaseException) -> None:
        reporter.raised(error, **agent.died(error))

    code = run(options.program, options.arguments, stopper.let_finish, died)
    if not (stopper.requested or reporter.has_raised) and (unsaid := agent.died_unsaid()):
        reporter.raised(unsaid[0], **unsaid[1])
    return code


def _fence(options: Options, context: Any, reporter: EndReporter) -> list[Fence]:
    """The fence of the stream's checkpoint, taken, if it declares one.

    Raises:
        Taken: another driver has the checkpoint, or may have.
    """
    checkpoint = context.getConf().get("spark.sparkscale.checkpointLocation", None)
    if not checkpoint or not options.record:
        return []
    mine = mark_of(options.stream, options.record, options.epoch)
    fence = Fence(HadoopFile(context, checkpoint), mine, options.succeeds, reporter.took)
    fence.take()

    def lost(who: Mark) -> None:
        reason = (
            f"the checkpoint has been taken by driver {who.epoch} of {who.stream!r}, {who.where}: "
            "this driver ended at once, for two on one checkpoint lose data"
        )
        _end_at_once(reporter, context, reason)

    fence.watch(lost)
    return [fence]


def _end_at_once(reporter: EndReporter, context: Any, reason: str) -> NoReturn:
    """End a driver whose checkpoint is another's, whatever hangs or fails: its log may, too."""
    try:
        telling = threading.Thread(target=reporter.fenced, args=(reason,), daemon=True)
        telling.start()
        telling.join(2 * WITHIN)
        threading.Thread(target=context.stop, daemon=True).start()
        time.sleep(STOP_WITHIN)
    finally:
        os._exit(FENCED)


def _host(options: Options) -> str:
    if options.advertise:
        return options.advertise
    everywhere = options.bind in ("", "0.0.0.0", "::")
    return socket.gethostname() if everywhere else options.bind
