"""Views of the data in blocks: what is read, how, and the sums that fits need of it."""
