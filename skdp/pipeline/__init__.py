"""Steps that share one budget: how it is split, how they are fitted, what goes between them."""

from skdp.pipeline._dp_pipeline import DPPipeline, make_dp_pipeline

__all__ = ["DPPipeline", "make_dp_pipeline"]
