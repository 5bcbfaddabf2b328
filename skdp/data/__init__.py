"""Views of the data in blocks: containers, passes over them, and the sums that fits need."""
