"""Nearest points, continuous collision detection, exact predicates, intersections, and the stencil of four vertices."""
