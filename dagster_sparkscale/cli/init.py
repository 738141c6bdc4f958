"""`init`: writes a minimal definitions.py that runs, with the program of its one stream."""

import re
from pathlib import Path

import click

from dagster_sparkscale.components.scaffold import JOBS, PROGRAM

DEFINITIONS = '''\
"""One stream on a cluster of this machine, which its first start brings up."""

from pathlib import Path

from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream, build_defs

HERE = Path(__file__).resolve().parent

stream = StructuredStream(
    name="{stream}",
    program=str(HERE / "{jobs}" / "{stream}.py"),
    batch_interval="10s",
    # Where its progress is kept, as an absolute path or a URI: without one it begins anew.
    # checkpoint_location="s3a://bucket/checkpoints/{stream}",
    autoscale=RatioPolicy(min_executors=1, max_executors=4),
)

defs = build_defs([stream], cluster=LocalCluster(workers=2))
'''
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


@click.command()
@click.argument("stream", metavar="[STREAM]", default="numbers")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    help="Where to write. Default: the current folder.",
)
def init(stream: str, folder: Path) -> None:
    """Write a definitions.py with one stream, named STREAM ("numbers" if left out), and its program
    in the folder jobs. Nothing that is there is written over.
    """
    if not _NAME.fullmatch(stream):
        raise click.UsageError(
            f"stream = {stream!r}: must be letters, digits and underscores, beginning with a letter"
        )
    definitions, program = folder / "definitions.py", folder / JOBS / f"{stream}.py"
    for path in (definitions, program):
        if path.exists():
            raise click.ClickException(f"{path} is there already: nothing was written")
    program.parent.mkdir(parents=True, exist_ok=True)
    definitions.write_text(DEFINITIONS.format(stream=stream, jobs=JOBS), encoding="utf-8")
    text = PROGRAM.format(program=f"{JOBS}/{program.name}", definitions=definitions.name)
    program.write_text(text, encoding="utf-8")
    click.echo(f"wrote {definitions} and {program}")
    click.echo("look at it in Dagster's UI:     dg dev -f definitions.py")
    click.echo(f"or start it from a terminal:    sparkscale start {stream} -f definitions.py")
    click.echo("both need DAGSTER_HOME, a folder that stays")
