"""Templates in the attributes of a component: Dagster's scope, and text that stays what it is.

Dagster's own rendering reads each text as a Python literal where it can: "8" becomes a number, also
where no template is in it, and a password of digits would. Here a text without a template is left
alone, one that is a single expression becomes what that is worth, and any other is text.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import Line

Place = tuple[str | int, ...]
BEGINS = ("{{", "{%", "{#")


def rendered(value: Any, scope: Mapping[str, Any], place: Place = ()) -> Any:
    """`value` with what its templates are worth, at any depth.

    Raises:
        DeclarationError: a template can't be rendered; each line says where it is.
    """
    faults: list[Line] = []
    if "env" in scope:
        scope = {**scope, "env": _Environment(scope["env"])}
    made = _rendered(value, scope, place, faults)
    if faults:
        raise DeclarationError.of(faults)
    return made


def _rendered(value: Any, scope: Mapping[str, Any], place: Place, faults: list[Line]) -> Any:
    if isinstance(value, dict):
        return {key: _rendered(each, scope, (*place, key), faults) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rendered(each, scope, (*place, n), faults) for n, each in enumerate(value)]
    if not isinstance(value, str) or not any(begins in value for begins in BEGINS):
        return value
    try:
        return _template(value)(scope)
    except Exception as error:  # a template calls what it likes
        # Not the template, which may hold a default that is secret.
        said = str(error) or type(error).__name__
        field = ".".join(map(str, place[-1:]))
        faults.append(Line(place, f"{field}: the template can't be rendered: {said}"))
        return None


class _Environment:
    """The variables of the environment as Dagster's `env`, none of them missing: a checkpoint that
    is not set would else be no checkpoint."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._env(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._env, name)
        if value is None:
            raise LookupError(
                f"the environment variable {name} is not set; env('{name}', 'value') gives a "
                "value for that"
            )
        return value


@cache
def _template(text: str) -> Callable[[Mapping[str, Any]], Any]:
    from jinja2 import StrictUndefined, Undefined
    from jinja2.nativetypes import NativeEnvironment, NativeTemplate

    class Environment(NativeEnvironment):
        @staticmethod
        def concat(values: Iterable[Any]) -> Any:
            parts = [*values]
            return parts[0] if len(parts) == 1 else "".join(map(str, parts))

    class Template(NativeTemplate):
        environment_class = Environment

    environment = Environment(undefined=StrictUndefined)
    environment.template_class = Template
    template = environment.from_string(text)

    def render(scope: Mapping[str, Any]) -> Any:
        value: Any = template.render(scope)
        if isinstance(value, Undefined):
            str(value)  # raises what is undefined
        return value

    return render
