"""Private matrix decompositions."""

from skdp.decomposition._components import DPPCA, DPTruncatedSVD
from skdp.decomposition._low_rank_factorizer import DPLowRankFactorizer
from skdp.decomposition._matrix_estimator import LowRankFactors
from skdp.decomposition.streams.base import StreamShard
from skdp.decomposition.streams.factorizers import DPContinualFactorizer, DPStreamingFactorizer
from skdp.decomposition.streams.reports import LocalReports

__all__ = [
    "DPPCA",
    "DPContinualFactorizer",
    "DPLowRankFactorizer",
    "DPStreamingFactorizer",
    "DPTruncatedSVD",
    "LocalReports",
    "LowRankFactors",
    "StreamShard",
]
