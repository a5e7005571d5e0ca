"""Steps of several worlds with `robust` or `guarded` in the same launches: `steps.py` is the step, `cloth.py` its dynamics."""

from weft.methods.joined.steps import JoinedRobust, join_worlds

__all__ = ["JoinedRobust", "join_worlds"]
