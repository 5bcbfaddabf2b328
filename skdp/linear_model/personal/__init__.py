"""A shared representation, and a head for each user: plan, start, fit."""
