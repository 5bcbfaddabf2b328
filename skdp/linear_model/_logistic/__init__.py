"""Logistic regression of private records."""
