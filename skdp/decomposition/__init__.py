"""Private matrix decompositions."""

from skdp.decomposition._continual_factorizer import DPContinualFactorizer
from skdp.decomposition._low_rank_factorizer import DPLowRankFactorizer
from skdp.decomposition._low_rank_factors import LowRankFactors
from skdp.decomposition._pca import DPPCA
from skdp.decomposition._stream_updates import StreamShard
from skdp.decomposition._streaming_factorizer import DPStreamingFactorizer
from skdp.decomposition._truncated_svd import DPTruncatedSVD

__all__ = [
    "DPPCA",
    "DPContinualFactorizer",
    "DPLowRankFactorizer",
    "DPStreamingFactorizer",
    "DPTruncatedSVD",
    "LowRankFactors",
    "StreamShard",
]
