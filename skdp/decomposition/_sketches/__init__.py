"""Factorization of a matrix from two noisy sketches of it."""
