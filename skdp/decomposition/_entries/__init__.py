"""Fits that release products of a private matrix with bases, whose noise follows the bases."""
