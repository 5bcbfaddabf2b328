"""Steps that share one budget: how it is split, how they are fitted, what goes between them."""
