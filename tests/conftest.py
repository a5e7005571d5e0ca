"""What all tests have in common."""

import hypothesis

# on a busy machine examples come slowly, which is nothing against the code
hypothesis.settings.register_profile(
    "busy",
    parent=hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy")
