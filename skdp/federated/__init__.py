"""Fits of rows that do not leave their owners: one fit that all parties run, and secure sums."""
