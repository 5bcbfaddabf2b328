"""Trace regression by Riemannian gradient descent: plan, fit, descent."""
