"""A shared representation, and a head of each user: plan, start, fit."""
