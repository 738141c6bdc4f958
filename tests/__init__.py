from hypothesis import HealthCheck, Phase, settings

# A busy machine is no reason for a test to fail: nothing here measures time.
settings.register_profile("suite", deadline=None)
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
settings.load_profile("suite")
