"""Names of the releases of a guided fit, and how many steps it has."""

__all__ = ["GATE", "GUIDED_STEPS", "GUIDES"]

#: The count that opens it, and the means.
GATE, GUIDES = "positive rows", ("guiding mean", "guiding mean again")
#: Steps of its iteration; more of them split the budget further.
GUIDED_STEPS = 4
