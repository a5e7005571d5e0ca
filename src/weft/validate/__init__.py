"""`weft validate`: what cloth does in each method, against theory and against measurements of real cloth."""

from weft.validate.suite import Case, Expected, Row, run_suite

__all__ = ["Case", "Expected", "Row", "run_suite"]
