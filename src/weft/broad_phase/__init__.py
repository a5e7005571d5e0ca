"""Broad phases: from all triangles to the few pairs of features that can touch during a step, behind one interface."""

from weft.broad_phase.interface import BROAD_PHASES, BroadPhase, Candidates, make_broad_phase

__all__ = ["BROAD_PHASES", "BroadPhase", "Candidates", "make_broad_phase"]
