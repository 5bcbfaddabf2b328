"""Numerics on arrays, without any knowledge of privacy."""
