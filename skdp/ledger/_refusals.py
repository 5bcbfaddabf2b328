"""Checks of what is charged to a ledger, and the text of a refusal."""

from numbers import Real
from typing import Any

from skdp.exceptions import BudgetError
from skdp.ledger._limit import Limit

#: Attributes of the record of a fit that are floats.
NUMBERS = ("mu", "delta_tail", "epsilon", "delta")


def check_kind(head: dict[str, Any], spent: Any) -> None:
    """Refuse a fit with another unit or adjacency than that of the ledger."""
    units = head["units"].split("\n")
    if spent.unit not in units or spent.adjacency != head["adjacency"]:
        raise BudgetError(
            f"The ledger counts {' or '.join(units)} with adjacency {head['adjacency']!r}, and the "
            f"fit protects {spent.unit} with adjacency {spent.adjacency!r}. It needs a ledger of "
            "its own or, if a record is a row with its response, one that was made with "
            "unit=('row', 'record')."
        )


def check_record(spent: Any) -> None:
    """Refuse an object that is no record of a fit, before the file is opened."""
    numbers = [getattr(spent, name, None) for name in NUMBERS]
    texts = [getattr(spent, name, None) for name in ("unit", "adjacency")]
    flags = [getattr(spent, name, None) for name in ("seeded", "enforced")]
    are_numbers = all(isinstance(one, Real) for one in numbers)
    if not are_numbers or not all(isinstance(one, str) for one in texts) or None in flags:
        raise TypeError(
            f"spent must be the record of a fit, its privacy_spent_, got {type(spent).__name__}."
        )
    mu, delta_tail, epsilon, delta = map(float, numbers)  # type: ignore[arg-type]
    if not (mu >= 0 and epsilon > 0 and 0 <= delta_tail <= delta < 1):
        raise ValueError(
            "spent is no record: it needs mu >= 0, epsilon > 0 and 0 <= delta_tail <= delta < 1, "
            f"got {mu!r}, {epsilon!r}, {delta_tail!r} and {delta!r}."
        )


def refusal(path: str, spent: Any, limit: Limit, head: dict[str, Any]) -> str:
    """Return the text of a refusal, which tells what is left."""
    left = limit.epsilon_of_fit(limit.room_beside(head["tails"]) - head["spent"])
    more = ""
    if spent.delta_tail:
        more = f" It also reserves {spent.delta_tail:.4g} of delta: a smaller delta reserves less."
    return (
        f"The fit has epsilon={spent.epsilon:.4g}, and the ledger {path!r} has less left: "
        f"{left:.4g} at its own delta.{more} Nothing has been released or charged. A search of "
        "scikit-learn would go on with the next candidate: pass error_score='raise' to it."
    )


def check_note(note: Any) -> None:
    """Refuse a note that is not a str."""
    if note is not None and not isinstance(note, str):
        raise TypeError(f"note must be a str or None, got {type(note).__name__}.")
