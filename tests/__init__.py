from hypothesis import settings

# A busy machine is no reason for a test to fail: nothing here measures time.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
