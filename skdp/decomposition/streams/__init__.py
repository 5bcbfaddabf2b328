"""Factorizations of streams, and the sketches that they release."""
