"""Data in blocks: containers, passes over blocks, and the sums that fits need."""
