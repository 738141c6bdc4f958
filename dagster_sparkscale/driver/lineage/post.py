"""Posts one event to an OpenLineage server, by HTTP and the standard library."""

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .plan import LineagePlan


class NotTaken(Exception):
    """The server did not take the event; the text says why, and has no secret in it."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the key is for this server, and a POST would become a GET."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(plan: LineagePlan, event: Mapping[str, Any], timeout: float) -> None:
    """Post `event` where `plan` says.

    Args:
        timeout: seconds for each step of it, such as to connect.

    Raises:
        NotTaken: it can't be said that the server has taken it.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"dagster-sparkscale/{plan.version or '-'}",
    }
    if (key := _key(plan)) is not None:
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps(event).encode()
    try:
        request = urllib.request.Request(plan.url, body, headers, method="POST")
        with urllib.request.build_opener(_NoRedirect()).open(request, timeout=timeout) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotTaken(f"{plan.url} answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise NotTaken(f"{plan.url}: {reason or type(reason).__name__}") from None
    except ValueError as error:  # a key with a line break in it, which must not be repeated
        raise NotTaken(f"{plan.url}: {type(error).__name__}: is the key one line?") from None


def _key(plan: LineagePlan) -> str | None:
    """The key of the server; None: none is declared.

    Raises:
        NotTaken: it is declared, and not there.
    """
    if plan.api_key_env is not None:
        key = os.environ.get(plan.api_key_env, "").strip()
        where = f"the environment variable {plan.api_key_env}"
    elif plan.api_key_file is not None:
        where = plan.api_key_file
        try:
            key = Path(where).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise NotTaken(f"{where}: can't be read: {type(error).__name__}") from None
    else:
        return None
    if not key:
        raise NotTaken(f"{where} has no key of the OpenLineage server")
    return key
