"""The token that reads metrics and does nothing else.

It follows from the token that controls the driver, by HMAC-SHA-256 (RFC 2104): so it is made anew
with that one for each driver, lies in no further file of the driver, and nobody can compute the one
that controls from it.
"""

import hashlib
import hmac

_PURPOSE = b"dagster_sparkscale: read metrics"


def read_token(token: str) -> str:
    """The token for `GET /metrics` of the driver whose token this is: 64 hexadecimal digits."""
    return hmac.new(token.encode(), _PURPOSE, hashlib.sha256).hexdigest()
