"""`backtest` and `recommend`: what other policies would have made of a stream's history."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import dagster as dg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dagster_sparkscale.advice import text
from dagster_sparkscale.advice.backtest import (
    DAY,
    DAYS,
    MOST_DAYS,
    MOST_LATE,
    NoAdvice,
    minutes_of,
    run_backtest,
)
from dagster_sparkscale.advice.grid import policies_to_try
from dagster_sparkscale.advice.specs import application_of
from dagster_sparkscale.backtest.loads import Load, read_csv
from dagster_sparkscale.backtest.study import HELD_OUT, Study
from dagster_sparkscale.cli.locations import Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import Finite
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.serve.page.backtest import report as page_of_backtest
from dagster_sparkscale.serve.page.files import static

TOO_LATE, REFUSED = 1, 2
"""Exit codes: the declared policy would have been later than it may be; no advice is given, or
there was an error."""
_PIPED = 160


class _Moment(click.ParamType):  # type: ignore[type-arg]
    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} must be a moment such as 2026-01-31T18:00, in UTC.", param, ctx)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_OPTIONS = (
    click.option(
        "--seed", metavar="N", type=int, default=0, help="Of the simulated noise. Default: 0."
    ),
    click.option(
        "--report",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Draw load, executors and delay over time: a page in one file (.html), or a picture "
        "(.png), for which it needs the extra `report`.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "--scale",
        metavar="FACTOR",
        type=Finite(0, min_open=True),
        default=1.0,
        help="Multiply the load by this. Default: 1.",
    ),
    click.option(
        "--trace",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A load in place of the recorded one: CSV (.csv, .csv.gz) with a header line "
        "seconds,records_per_second. It begins on initial_executors.",
    ),
    click.option(
        "--most-late",
        metavar="PERCENT",
        type=Finite(0, 100),
        default=MOST_LATE,
        help="Percent of the time whose records may be late. Default: 1.",
    ),
    click.option(
        "--days",
        metavar="DAYS",
        type=Finite(0, MOST_DAYS, min_open=True),
        default=DAYS,
        help="Days of history. Default: 7.",
    ),
    click.option(
        "--until", metavar="TIME", type=_Moment(), help="End of the history. Default: now."
    ),
    click.option(
        "--since",
        metavar="TIME",
        type=_Moment(),
        help="Begin of the history, in place of --days: 2026-01-31T18:00, in UTC.",
    ),
    click.option(
        "--held-out",
        metavar="SHARE",
        type=Finite(0, 1, min_open=True, max_open=True),
        default=HELD_OUT,
        help="Share of the history, at its end, that calibrates nothing and tests what the "
        "rest says. Default: 0.3.",
    ),
    click.option(
        "--application",
        metavar="FIELDS",
        help="With --trace, for a stream without a history: how long its batches take, such as "
        "overhead=0.8,work=0.003,partitions=64 (seconds of a batch whatever its records, "
        "seconds of one task slot for a record, tasks of a batch).",
    ),
)
"""The options of both commands, the last first: click shows them the other way round."""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in _OPTIONS:
        command = option(command)
    return command


@click.command("backtest")
@click.argument("name", metavar="STREAM")
@click.option(
    "--policy",
    "policies",
    metavar="POLICY",
    multiple=True,
    help="Policy to try: capacity, ratio, declared or fixed, and its fields, such as "
    "ratio:scale_up_ratio=0.8,max_executors=12 or fixed:executors=4. Repeat it for several.",
)
@_options
@on_a_target
def backtest_command(where: Target, name: str, policies: tuple[str, ...], **options: Any) -> None:
    """Simulate policies on a stream's history, beside the declared one. Changes nothing.

    What ran is simulated first: where that differs from what was recorded, no advice is given. LATE
    is the share of the time whose records were in a late batch: Spark's total delay was above two
    batch intervals. LAST PART is the same in the held-out part, by a model calibrated without it.
    Exit codes: 0 the declared policy is in time; 1 it is too late; 2 no advice, or an error.
    """
    with _refusing():
        _carry_out(where, name, lambda _: list(policies), **options)


@click.command("recommend")
@click.argument("name", metavar="STREAM")
@_options
@on_a_target
def recommend(where: Target, name: str, **options: Any) -> None:
    """Simulate many policies on a stream's history, and say which to declare. Changes nothing.

    It tries thresholds and scale-down windows of RatioPolicy, prices of CapacityPolicy, lower
    maxima and higher minima, and recommends the cheapest that is in time, in the last part as well.
    Columns and exit codes are those of backtest.
    """
    with _refusing():
        _carry_out(where, name, policies_to_try, **options)


class _Refused(click.ClickException):
    exit_code = REFUSED


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever is in the way of advice, its exit code is not that of a policy which is too late."""
    try:
        yield
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise _Refused(error.message) from error
    except (ClusterError, dg.DagsterError) as error:
        raise _Refused(str(error)) from error


def _carry_out(
    where: Target,
    name: str,
    policies: Callable[[Stream], list[str]],
    *,
    days: float,
    since: float | None,
    until: float | None,
    held_out: float,
    application: str | None,
    most_late: float,
    trace: Path | None,
    scale: float,
    as_json: bool,
    report: Path | None,
    seed: int,
) -> None:
    stream = where.find(name).streams.by_name[name]
    if application is not None and trace is None:
        raise click.UsageError("--application: needs the load of a --trace")
    if report is not None:
        drawn = _drawing(report)
    try:
        load = _load(trace, scale)
        known = None if application is None else application_of(application, stream.workload)
        minutes = [] if known is not None else _minutes(stream, days, since, until)
        found = run_backtest(
            *(minutes, stream, policies(stream)),
            most_late=most_late,
            load=load,
            scale=scale,
            application=known,
            held_out=held_out,
            seed=seed,
        )
    except NoAdvice as error:
        known_by = "" if trace is None else "; --application says how long batches take without one"
        click.echo(f"no advice: {error}{known_by}", err=True)
        click.get_current_context().exit(REFUSED)
    except (DeclarationError, ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps(text.as_dict(name, found), indent=2))
    else:
        _show(name, found)
    if report is not None:
        try:
            drawn(name, found, report)
        except (ValueError, OSError) as error:
            raise click.UsageError(f"--report: {error}") from error
    if found.refused is not None:
        click.get_current_context().exit(REFUSED)
    if text.is_late(found):
        click.get_current_context().exit(TOO_LATE)


def _minutes(stream: Stream, days: float, since: float | None, until: float | None) -> list[Minute]:
    until = time.time() if until is None else until
    since = until - days * DAY if since is None else since
    if since >= until:
        raise click.UsageError("--since: must be before --until")
    with instance_of_home() as instance:
        return minutes_of(instance, stream, since, until)


def _load(trace: Path | None, scale: float) -> Load | None:
    try:
        return None if trace is None else read_csv(trace).scaled(scale)
    except OSError as error:
        raise click.UsageError(f"--trace: {str(trace)!r}: {error.strerror}") from error


def _drawing(report: Path) -> Callable[[str, Study, Path], None]:
    """What draws a report; asked for before anything is computed."""
    if not report.parent.is_dir():
        raise click.UsageError(f"--report: {str(report.parent)!r} is no folder")
    if report.suffix.lower() in (".html", ".htm"):
        return _write_page
    try:
        from dagster_sparkscale.advice.picture import draw
    except ImportError as error:
        raise click.UsageError(
            f"--report: {error}: install the extra, pip install 'dagster-sparkscale[report]'"
        ) from error
    return draw


def _write_page(name: str, study: Study, path: Path) -> None:
    path.write_text(page_of_backtest(name, study, static()), encoding="utf-8")


def _show(name: str, study: Study) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED)
    console.print(text.conclusion(name, study), soft_wrap=True, markup=False, highlight=False)
    for line in text.believed(study):
        console.print(f"  {line}", soft_wrap=True, markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(text.COLUMNS):
        table.add_column(title, justify="right" if 0 < number < len(text.COLUMNS) - 1 else "left")
    for row in text.rows(study):
        table.add_row(*map(Text, row))  # not as markup: a policy may have brackets
    if study.outcomes:
        console.print(table)
    for line in text.notes(study):
        console.print(f"  {line}", soft_wrap=True, markup=False, highlight=False)
