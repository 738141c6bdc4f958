"""What the loop makes of one look, with all capabilities."""

from functools import partial

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.watch import assess as assessing

assess = partial(assessing.assess, capabilities=CAPABILITIES)
assess_or_say_why = partial(assessing.assess_or_say_why, capabilities=CAPABILITIES)
