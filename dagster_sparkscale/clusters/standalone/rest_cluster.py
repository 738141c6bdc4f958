"""Streams on a Standalone cluster whose workers run their drivers too (cluster deploy mode)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.clusters.base import Driver, is_text
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.agent_files import write_tokens
from dagster_sparkscale.clusters.host.conditions import program_here, programs, state_folder
from dagster_sparkscale.clusters.host.folders import read_json
from dagster_sparkscale.clusters.host.state_folder import StateFolderCluster
from dagster_sparkscale.clusters.launch.driver_options import Invocation, driver_options
from dagster_sparkscale.clusters.launch.driver_zip import parcel
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.standalone import masters, rest
from dagster_sparkscale.clusters.standalone.master_page import Page
from dagster_sparkscale.clusters.standalone.remote_driver import Masters, Overview, RemoteDriver
from dagster_sparkscale.clusters.standalone.submission import (
    later_settings,
    refuse_if_too_large,
    submission,
)
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver import shipped

ON_WORKERS = "local://"
"""Begins the path of a program that lies on the workers."""
_PORTS = {"rest_urls": 6066, "web_urls": 8080}
"""The default ports of masters."""


@dataclass(frozen=True)
class Program:
    """A program as its driver is told of it."""

    place: str
    """A path on the workers; `{folder}` stands for the driver's own folder there."""
    files: Mapping[str, str]
    """What is sent along for that: texts by their names."""


class StandaloneRestCluster(StateFolderCluster):
    """Runs streams on a Standalone cluster whose workers run their drivers too: cluster deploy
    mode, by the REST servers of the masters. What is remembered stays on Dagster's host.

    All settings may be `dg.EnvVar`s.
    """

    master: str = Field(
        description="URL of the master, spark://host:7077; several with commas between them."
    )
    rest_urls: list[str] = Field(
        description='REST servers of the masters, such as ["http://host:6066"].'
    )
    web_urls: list[str] = Field(
        description='Web UIs of the masters, such as ["http://host:8080"]. Those of the workers, '
        "which the masters name, must be reached from here too."
    )
    python: str = Field(
        default="python3",
        description="Python of drivers and executors: a path on the workers, or a name that is "
        "found there.",
    )
    agent_bind: str = Field(
        default="0.0.0.0",
        description="Address that the agents listen at, on the workers. They speak TLS, each with "
        "a certificate of its own.",
    )
    FOLLOW: ClassVar[float] = 4.0

    _overviews: tuple[Overview | None] | None = PrivateAttr(default=None)

    @field_validator("master", mode="before")
    @classmethod
    def _master_is_url(cls, value: Any) -> Any:
        if is_text(value) and value:
            masters.hosts(value)
        return value

    @field_validator("rest_urls", "web_urls", mode="before")
    @classmethod
    def _urls_are_urls(cls, value: Any, info: ValidationInfo) -> Any:
        example = f"http://host:{_PORTS[str(info.field_name)]}"
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f'must be a list of URLs, such as ["{example}"]')
        for url in value:
            if is_text(url) and not _is_url(url):
                raise ValueError(f"{url!r}: must be a URL such as {example}")
        return value

    @field_validator("python", "agent_bind", mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        if is_text(value) and not value.strip():
            raise ValueError(f"{value!r}: must not be empty; leave it out for the default")
        return value

    def snapshot(self) -> Self:
        copy = type(self)(**{name: getattr(self, name) for name in type(self).model_fields})
        copy._overviews = (self._overview(),)  # also where no master answers: each look would wait
        return copy

    def driver_of(self, stream: str, record: Record) -> RemoteDriver:
        store = self.store()
        asked = Masters(self.rest_urls, self._overview, store.has_ended)
        return RemoteDriver(store.folder(stream), record, asked)

    def program_of(self, stream: Stream) -> Program:
        if stream.program.startswith(ON_WORKERS):
            return Program(stream.program.removeprefix(ON_WORKERS), {})
        path = program_here(stream)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ClusterError(f"{stream.name}: {path}: can't read it: {error}") from None
        files = {path.name: text}
        refuse_if_too_large(parcel(), shipped.pack({"files": files}))
        return Program(f"{{folder}}/{path.name}", files)

    def check(self, stream: Stream) -> None:
        self.program_of(stream)
        self._in_charge()

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        self._in_charge()

        def launch(start: EpochStart) -> None:
            stream, record, program = call.stream, start.record, call.program
            driver = self.driver_of(stream.name, record)
            known_by = credentials.make(stream.name, record.epoch)
            driver.files.create()
            write_tokens(driver.files, known_by.token)
            driver.files.write_private(driver.files.certificate, known_by.certificate)
            made = settings(stream, record.epoch, self.master, self.spark_conf, more=call.settings)
            packed = shipped.pack(
                {
                    "files": {
                        **program.files,
                        "token": known_by.token,
                        "certificate.pem": known_by.certificate,
                        "key.pem": known_by.key,
                    },
                    "settings": later_settings(made),
                    "options": [
                        *driver_options(stream, start),
                        *("--token-file", "{folder}/token", "--bind", self.agent_bind),
                        *("--certificate", "{folder}/certificate.pem"),
                        *("--key", "{folder}/key.pem"),
                        *("--announce", f"{{folder}}/{shipped.AGENT}"),
                        *(program.place, *call.arguments),
                    ],
                }
            )
            body = submission(
                mark=driver.mark,
                master=self.master,
                python=self.python,
                settings=made,
                environment=stream.env,
                code=parcel(),
                start=packed,
            )
            self._refuse_if_overtaken(driver)
            driver.launch(body)
            try:
                self._refuse_if_overtaken(driver)
            except ClusterError:
                driver.kill()
                raise
            driver.folder.prune()

        return launch

    def logs(self, driver: Driver, lines: int = 50) -> str:
        record = self.store().read(driver.stream) or Record.new("")
        return self.driver_of(driver.stream, replace(record, epoch=driver.epoch)).log(lines)

    def took(self, stream: str, epoch: int) -> bool:
        files = self.store().folder(stream).submission(epoch)
        may_have_run = (read_json(files.exit) or {}).get("told", not files.posted.exists())
        # Of one that has not said how it ended nothing is known: it may have.
        return files.has_taken_its_checkpoint() if may_have_run else True

    def capacity(self) -> Capacity | None:
        content = self._overview()
        return masters.capacity(dict(content)) if content else None

    def conditions(self, streams: Sequence[Stream]) -> Iterator[Condition]:
        try:
            overview = self._in_charge()
            yield Condition(
                "master", f"{overview.get('url')}, {overview.get('aliveworkers')} workers"
            )
        except ClusterError as error:
            yield Condition("master", "none takes drivers", str(error))
        yield state_folder(self.state_path())
        yield from programs(streams, self.program_of)

    def _overview(self) -> Overview | None:
        if self._overviews is not None:
            return self._overviews[0]
        content = masters.alive(self.web_urls)
        return None if content is None else Page(content)

    def _in_charge(self) -> Overview:
        """The master in charge, which takes drivers.

        Raises:
            ClusterError: no master is in charge; says why.
        """
        overview = self._overview()
        if overview is None:
            raise ClusterError(
                f"none of the masters at {', '.join(self.web_urls)} answers and is in charge"
            )
        rest.see_that_one_answers(self.rest_urls)
        return overview

    def _refuse_if_overtaken(self, driver: RemoteDriver) -> None:
        """A process that was held up for long may find that others have gone on without it."""
        if driver.is_overtaken():
            raise ClusterError(
                f"the start of {driver.stream!r}, epoch {driver.record.epoch}, was overtaken by "
                "another: nothing of it runs"
            )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its port is no number, or too high
        return False
