"""Synthetic data with a known structure."""

from skdp.datasets._graph import make_block_graph
from skdp.datasets._interactions import make_interactions
from skdp.datasets._low_rank import make_low_rank, make_spiked
from skdp.datasets._personal import make_personalized_regression
from skdp.datasets._trace import make_trace_regression

__all__ = [
    "make_block_graph",
    "make_interactions",
    "make_low_rank",
    "make_personalized_regression",
    "make_spiked",
    "make_trace_regression",
]
