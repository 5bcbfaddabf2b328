"""What a descent compares with its clip level, record by record, of which a fit sees a count."""

from contextlib import contextmanager
from unittest.mock import patch

from skdp.data.reduce import PerRow
from skdp.linear_model import _descent as descents
from skdp.linear_model.low_rank import records as trace_records

__all__ = ["sizes_for_counts"]


@contextmanager
def sizes_for_counts():
    """Let gradients inside give the sizes of all records in place of `n_kept`."""
    with (
        patch.object(trace_records, "n_within", lambda sizes, *_: PerRow(sizes)),
        patch.object(descents, "n_within", lambda sizes, *_: PerRow(sizes)),
    ):
        yield
