"""One client for a process and a connection: Python workers are kept for many tasks, and a client
has connections, a limiter and credentials that are worth keeping too."""

from functools import lru_cache, partial

from .planner import THREADS
from .service import Service

# Planning asks for many shards at a time.
service_for = lru_cache(8)(partial(Service, connections=THREADS))
