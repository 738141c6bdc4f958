import os

from hypothesis import HealthCheck, Phase, settings

# A busy machine is no reason for a test to fail: nothing here measures time. In CI, where nobody
# keeps what was found, the examples are the same each time, so that a failure can be repeated; and
# half as many, as those that were drawn yesterday find nothing new.
settings.register_profile("soak", deadline=None, print_blob=True, derandomize=False)
settings.register_profile("suite", settings.get_profile("soak"))
settings.register_profile("ci", settings.get_profile("soak"), derandomize=True, max_examples=50)
# For mutation testing: the same examples each time, few of them, and nobody reads what was found.
# The tests run in processes forked from one that has run them, which Hypothesis takes for a fault.
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.differing_executors, HealthCheck.too_slow),
)
settings.load_profile("ci" if "CI" in os.environ else "suite")
