"""Factorizations of streams, the sketches that streams release, and reports of persons."""
