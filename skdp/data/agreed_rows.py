"""The rows of one owner, as a part of rows that several owners have agreed to sum up."""

from dataclasses import dataclass, field

from skdp.data.rows import Rows


@dataclass(eq=False)
class AgreedRows(Rows):  # numpydoc ignore=PR02
    """A view of the rows of one owner, whose public facts are those of all owners together.

    Sums, and arrays with one value for each row, are of the own rows only. All that follows from
    the number of rows follows from the agreed one: the step of a sample, the target of a search,
    and the rounding that is charged. So it is the same at every owner, whatever rows they have. A
    sample is charged like all rows: rows that come as a stream stay whole.

    Parameters
    ----------
    agreed_n_rows : int
        Number of rows of all owners, or of owners where these are the units.
    agreed_depth : int
        Longest chain of additions that any owner needs, such as
        :func:`skdp.data.sources.largest_depth`.

    Raises
    ------
    ValueError
        If their sums have a longer chain: its rounding would not be covered.
    """

    agreed_n_rows: int = field(kw_only=True)
    agreed_depth: int = field(kw_only=True)

    def __post_init__(self) -> None:
        """Refuse rows whose sums may round further than agreed; clip them anew in every pass."""
        own_depth = super().depth
        if own_depth > self.agreed_depth:
            raise ValueError(
                f"A sum over X has a chain of {own_depth} additions, and at most "
                f"{self.agreed_depth} have been agreed: pass X as one array, or in fewer parts."
            )
        # A fit may wait for days. Whoever changes X in the meantime must not find that rows are
        # clipped by the norms that they once had.
        self.source.is_repeatable = False

    @property
    def n_rows(self) -> int:
        """Agreed number of rows."""
        return self.agreed_n_rows

    @property
    def depth(self) -> int:
        """Agreed longest chain of additions."""
        return self.agreed_depth
