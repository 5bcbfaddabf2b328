"""Factorization of a matrix that is seen through two sketches only."""
