"""Decompositions of rows: plan, fit, solvers."""
