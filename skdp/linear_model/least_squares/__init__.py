"""Least squares: plan, steps, fit."""
