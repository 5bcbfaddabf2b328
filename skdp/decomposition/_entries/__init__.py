"""Fits whose noise follows released bases: products of a private matrix with them."""
