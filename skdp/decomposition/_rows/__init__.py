"""Fits that protect rows, bounded in norm."""
