"""How neighboring datasets differ in one protected unit."""

__all__ = ["ADJACENCIES", "choose"]

ADJACENCIES = ("replace", "zero_out")


def choose(adjacency: str, *, zero_out: float, replace: float) -> float:
    """Return the value for the adjacency."""
    return {"zero_out": zero_out, "replace": replace}[adjacency]
