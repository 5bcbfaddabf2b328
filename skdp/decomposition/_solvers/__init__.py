"""One algorithm a file: (rows, budget, parameters) -> released factors."""
