"""Low-rank trace regression: its problem, plan, starts, descent and scales."""
