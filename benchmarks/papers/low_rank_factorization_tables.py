"""Tables 3 to 6 and 11 of Upadhyay (2016), arXiv:1604.01429.

Tables 3 to 11 are in the file beside this one, digit by digit as published.
`low_rank_factorization_listings.py` has ports of what made them.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TABLES", "Row", "Table", "published"]


@dataclass(frozen=True)
class Row:
    """A line of a table; what it does not have is None. `rows` is printed, and is not always m."""

    rows: int
    n: int
    k: int
    alpha: float
    ours: float
    data: str = ""
    hardt_roth: float | None = None
    optimum: float | None = None
    expected: float | None = None


@dataclass(frozen=True)
class Table:
    """Lines, and what their captions and listings say in common."""

    number: int
    title: str
    # Entries lie below; they fill the first k columns or all.
    bound: int
    only_k_columns: bool
    # Of k / alpha and k / alpha ** 2, the sizes of the sketches.
    size_factor: float
    # What is printed as rows counts those of the padding too.
    rows_with_padding: bool
    # delta is rows ** -delta_power; 0 without noise and padding.
    delta_power: int
    rows: list[Row]


def published(number: int) -> list[Row]:
    """Read the lines of a table; what it does not have is empty."""
    lines = csv.DictReader(Path(__file__).with_suffix(".csv").read_text().splitlines())
    return [
        Row(**{name: _value(name, text) for name, text in line.items() if text})
        for line in lines
        if line.pop("table") == str(number)
    ]


def _value(name: str, text: str) -> float | int | str:
    if name == "data":
        return text
    return float(text) if "." in text else int(text)


TABLES = {
    table.number: table
    for table in (
        Table(3, "total error", 5000, False, 1.0, True, 1, published(3)),
        Table(4, "additive error by dimension", 5, True, 0.05, True, 1, published(4)),
        Table(5, "additive error by alpha", 20, True, 0.05, False, 2, published(5)),
        Table(6, "additive error by k", 20, True, 0.05, False, 2, published(6)),
        Table(11, "total error without noise", 5000, False, 1.0, False, 0, published(11)),
    )
}
