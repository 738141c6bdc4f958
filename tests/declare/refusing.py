"""What is said of a declaration that is refused."""

from typing import Any

import pytest

from dagster_sparkscale.declare.declaration import DeclarationError


def refusal(make: Any, *args: Any, **fields: Any) -> str:
    with pytest.raises(DeclarationError) as refused:
        make(*args, **fields)
    return str(refused.value)
