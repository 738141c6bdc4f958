"""A stream, declared by decorating the function that returns its program's arguments. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.stream import Stream

S = TypeVar("S", bound=Stream)


def streaming_asset(
    stream_type: type[S], **fields: Any
) -> Callable[[Callable[[], Sequence[str] | None]], S]:
    """Declare a stream by decorating a function that returns the program's arguments.

    The function's name is the stream's, its docstring the asset's description. It is called each
    time the stream is started, so it may look things up. Pass the result to `build_defs`.

        @streaming_asset(StructuredStream, program="jobs/clicks.py", batch_interval="10s")
        def clicks():
            "Clicks per page, every ten seconds."
            return ["--topic", "clicks"]

    Raises:
        DeclarationError: `stream_type` is no kind of stream, or `arguments` stand beside the
            function.
    """
    if not (isinstance(stream_type, type) and issubclass(stream_type, Stream)):
        raise DeclarationError(
            f"stream_type = {shown(stream_type)}: must be StructuredStream or DStream, as in "
            '@streaming_asset(StructuredStream, program="jobs/clicks.py", batch_interval="10s")'
        )
    if "arguments" in fields:
        raise DeclarationError("arguments: drop it; the decorated function returns them")

    def declare(function: Callable[[], Sequence[str] | None]) -> S:
        given = {"name": function.__name__, "description": function.__doc__, **fields}
        return stream_type(arguments=lambda: function() or (), **given)

    return declare
