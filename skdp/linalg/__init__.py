"""Numerics on arrays; knows nothing of privacy."""
