"""What the steps of a frame could not do, as the status of the frame."""

import numpy as np

from weft.methods.base import StepReport, summarise


def test_problems_that_differ_in_their_numbers_are_told_once_with_the_largest():
    steps = [["9 pairs overlap", "no end"], ["12 pairs overlap"], ["11 pairs overlap", "moved 2e-05 m in 3 steps"]]
    reports = [StepReport(contacts=k, problems=problems) for k, problems in enumerate(steps)]
    row = summarise(reports)
    assert row["status"] == "12 pairs overlap; no end; moved 2e-05 m in 3 steps" and row["contacts"] == 3
    assert summarise([StepReport()])["status"] == "ok"
    assert summarise([StepReport(problems=[f"strained by {np.inf}"])])["status"] == "strained by inf"
