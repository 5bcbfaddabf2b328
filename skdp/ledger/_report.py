"""The printed report of a ledger."""

from collections.abc import Sequence
from typing import Any

from skdp.ledger._limit import WHOLE, Cost, Limit


def limit_of(head: dict[str, Any]) -> Limit:
    """Return the limit of a ledger."""
    return Limit(head["epsilon"], head["delta"], head["mu"])


def report_of(path: str, head: dict[str, Any], charges: Sequence[dict[str, Any]]) -> str:
    """Format the limit, what is left of it, and a line for each charge."""
    limit, delta, units = limit_of(head), head["delta"], head["units"].replace("\n", " or ")
    _, epsilon = limit.epsilon_of_sum(Cost(head["spent"], head["tails"]))
    room = limit.room_beside(head["tails"]) - head["spent"]
    one, ten = limit.epsilon_of_fit(room), limit.epsilon_of_fit(room // 10)
    lines = [
        f"{path}: {head['dataset']!r}, per {units}, adjacency {head['adjacency']!r}",
        f"limit ({head['epsilon']:g}, {delta:g})-DP; spent ({epsilon:.4g}, {delta:g})-DP, "
        f"{head['spent'] / WHOLE:.1%}; left for one fit epsilon={one:.4g}, "
        f"for each of ten {ten:.4g}",
        *[f"of delta {head['tails'] / WHOLE:.1%} is reserved for tails"] * bool(head["tails"]),
        f"{'#':>5} {'time (UTC)':<20}{'epsilon':>9}{'delta':>9}{'share':>8}  what",
    ]
    return "\n".join([*lines, *map(_line, charges)])


def _line(charge: dict[str, Any]) -> str:
    """Format one charge."""
    numbers = f"{charge['epsilon']:>9.4g}{charge['delta']:>9.2g}{charge['spent'] / WHOLE:>8.2%}"
    what = charge["what"] if charge["note"] is None else f"{charge['what']} ({charge['note']})"
    return f"{charge['id']:>5} {_shown(charge['time'][:19]):<20}{numbers}  {_shown(what)}"


def _shown(text: str) -> str:
    """Escape characters that would break the line, such as a newline."""
    return text if text.isprintable() else ascii(text)
