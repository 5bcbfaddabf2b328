"""Steps that share one budget: its split, their fits, and the rows between them."""

from skdp.pipeline._dp_pipeline import DPPipeline, make_dp_pipeline

__all__ = ["DPPipeline", "make_dp_pipeline"]
