"""Decompositions of a matrix whose entries are protected: plan, solvers."""
