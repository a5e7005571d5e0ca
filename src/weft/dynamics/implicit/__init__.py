"""Implicit cloth after Baraff and Witkin 1998: forces, their Jacobians, and one linear solve a step."""
