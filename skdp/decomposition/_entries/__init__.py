"""Fits that release products of a private matrix with bases, and scale the noise to the bases."""
