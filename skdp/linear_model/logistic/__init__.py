"""Logistic regression: plan, fit, scores."""
