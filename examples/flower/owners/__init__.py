"""A fit across owners, as an app of Flower."""
