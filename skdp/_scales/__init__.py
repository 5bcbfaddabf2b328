"""Private centers and scales of columns: what is released, and what follows from it."""
