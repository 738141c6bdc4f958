"""The code location of the scene, as the webserver loads it."""

from dagster_sparkscale import build_defs
from tests.in_memory.cluster import World
from tests.ui.scene import STREAMS

defs = build_defs(STREAMS, World().cluster)
