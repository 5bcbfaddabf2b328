"""What a look at a sparse matrix takes for `speed.py`, beside a fit to the same."""

from typing import Any

from skdp.data.containers import checked_container


class Look:
    """The look that is taken before each conversion."""

    def fit(self, X: Any) -> None:
        checked_container(X)
