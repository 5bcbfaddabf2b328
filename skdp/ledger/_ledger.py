"""The ledger of a dataset: it adds up the costs of all fits, and refuses more than its limit."""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context
from numbers import Integral
from types import SimpleNamespace
from typing import Any, NoReturn, Self

from skdp.exceptions import BudgetError, LedgerError, named, shown
from skdp.ledger import _file as file
from skdp.ledger._database import insert, rows_of
from skdp.privacy.releases import PrivacySpent, as_html
from skdp.privacy.sensitivity import ADJACENCIES


class LeftOutLedger:
    """Stands for the ledger in the pickle of a fitted object, and refuses charges.

    The ledger has a path, which is not for everybody who gets the model.
    """

    def charge(self, spent: Any, what: str = "", *, note: str | None = None) -> NoReturn:
        """Refuse a fit: the ledger was left out of the pickle."""
        raise LedgerError(
            "The pickle of a fitted object has no ledger, because a ledger shows its path: before "
            "another fit pass the ledger again, as in set_params(ledger=PrivacyLedger(path))."
        )

    def __sklearn_clone__(self) -> "LeftOutLedger":
        return self  # There is no state to copy.

    def __reduce__(self) -> str:
        return "LEFT_OUT"

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT = LeftOutLedger()


# ------------------------------
# Checks of charges, and the error about a charge that exceeds the limit.


def check_kind(head: dict[str, Any], spent: Any) -> None:
    """Refuse a fit whose unit or adjacency differs from the ledger's."""
    units = head["units"].split("\n")
    if spent.unit not in units or spent.adjacency != head["adjacency"]:
        hint, flaw = "", f"counts {' or '.join(units)} and the fit protects {spent.unit}"
        if spent.unit in units:
            flaw = f"has adjacency {head['adjacency']!r} and the fit {spent.adjacency!r}"
        if {spent.unit, *units} == {"row", "record"}:
            hint = ", or with unit=('row', 'record') if a record is a row with its response"
        raise BudgetError(
            f"The ledger {flaw}. The fit needs a ledger of its own, at another path, made with "
            f"unit={spent.unit!r} and adjacency={spent.adjacency!r}{hint}."
        )


def refusal(path: str, spent: Any, limit: file.Limit) -> str:
    """Return the error text for a fit that exceeds the limit; it names the epsilon that is left."""
    left = limit.epsilon_of_fit(limit.left(), spent.delta)
    rounded = format(Context(4, ROUND_FLOOR).create_decimal_from_float(left).normalize(), "f")
    cure = "Its limit is spent: these data allow no further fit. Use the models that are fitted."
    if limit.left() > 0:
        cure = "Pass a smaller epsilon, as remaining(delta=...) computes it, or a smaller delta."
    of_tail = ""
    if spent.delta_tail:
        tail = f"{spent.delta_tail:.4g} of delta"
        of_tail = f" It also reserves {tail}: a smaller delta reserves less."
    return (
        f"The fit has epsilon={spent.epsilon:.4g}, and the ledger {path!r} has less left: "
        f"{rounded}, at delta={spent.delta:.4g}.{of_tail} This fit was not charged, and released "
        f"nothing. {cure}"
    )


def check_note(note: Any) -> None:
    """Refuse a note that is not a str."""
    if note is not None and not isinstance(note, str):
        raise TypeError(f"note must be a str or None, got {type(note).__name__}.")


# ------------------------------
# The printed report of a ledger.


def report_of(
    path: str, head: dict[str, Any], limit: file.Limit, charges: Sequence[dict[str, Any]]
) -> str:
    """Describe the limit and the remaining budget, and each charge in a line."""
    delta, units = head["delta"], head["units"].replace("\n", " or ")
    _, epsilon = limit.spent_mu_and_epsilon()
    of_one, of_ten = (limit.epsilon_of_fit(limit.left() // n) for n in (1, 10))
    lines = [
        f"{path}: {head['dataset']!r}, per {units}, adjacency {head['adjacency']!r}",
        f"limit ({head['epsilon']:g}, {delta:g})-DP; spent ({epsilon:.4g}, {delta:g})-DP, "
        f"{limit.spent / file.WHOLE:.1%}; left for one fit epsilon={of_one:.4g}, "
        f"for each of ten {of_ten:.4g}",
    ]
    if limit.tails:
        lines.append(f"{limit.tails / file.WHOLE:.1%} of delta is reserved for tails")
    lines.append(f"{'#':>5} {'time (UTC)':<20}{'epsilon':>9}{'delta':>9}{'share':>8}  what")
    return "\n".join([*lines, *map(_line, charges)])


def _line(charge: dict[str, Any]) -> str:
    """Describe one charge."""
    share, time = charge["spent"] / file.WHOLE, _shown(charge["time"][:19])
    what = charge["what"] if charge["note"] is None else f"{charge['what']} ({charge['note']})"
    numbers = f"{charge['epsilon']:>9.4g}{charge['delta']:>9.2g}{share:>8.2%}"
    return f"{charge['id']:>5} {time:<20}{numbers}  {_shown(what)}"


def _shown(text: str) -> str:
    """Escape characters that would break a line, such as a newline."""
    return text if text.isprintable() else ascii(text)


class PrivacyLedger:
    """A file that limits the total cost of all fits on one dataset.

    Estimators have a parameter `ledger`. A fit charges its whole cost once, on disk, before its
    first release. If the cost exceeds the rest of the limit, the fit raises `BudgetError`, and
    nothing is released or charged. Clones, pickles, threads, processes and later sessions all use
    the same file.

    Parameters
    ----------
    path : str or path-like
        A file made by `create`, on a local disk, without hard links.
    note : str or None, default=None
        Text stored with all charges of this object, such as the purpose of the fits.

    Raises
    ------
    LedgerError
        If the file does not exist, or is damaged or not a ledger.

    See Also
    --------
    skdp.privacy.PrivacySpent.compose : Total cost of fits, without a file.

    Notes
    -----
    **Privacy.** Unit and adjacency: `create` sets both, and the ledger refuses fits with another
    unit or adjacency. The file contains only public facts: names of estimators, times, numbers of
    the records, and a random id for each fit across owners, by which an owner continues after a
    crash. Charges are whole multiples of 2 ** -62 of the limit, rounded up, and are never refunded,
    not even after a crash. So the ledger is a privacy filter, which is valid even if later fits
    depend on earlier fits [1]_. The ledger prevents accidents, but not fraud: a copy of the file,
    or a restored backup, has the spent budget again. The ledger does not know the data: pass it to
    all fits on its dataset, and to no other fits.

    References
    ----------
    .. [1] A. Smith, A. Thakurta (2022). "Fully adaptive composition for Gaussian differential
       privacy". :arxiv:`2210.17520`

    Examples
    --------
    >>> import os, tempfile
    >>> from skdp import DPPCA
    >>> from skdp.ledger import PrivacyLedger
    >>> path = os.path.join(tempfile.mkdtemp(), "digits.skdp")
    >>> ledger = PrivacyLedger.create(path, dataset="digits", epsilon=4.0, delta=1e-6)
    >>> round(ledger.remaining(), 3)
    4.0
    """

    @named
    def __init__(self, path: str | os.PathLike[str], *, note: str | None = None) -> None:
        check_note(note)
        self.path, self.note = os.path.abspath(os.fsdecode(path)), note
        self._uuid: str | None = None
        with self._opened() as (_, head, _):
            self._uuid = head["uuid"]

    @classmethod
    @named
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        epsilon: float,
        delta: float,
        unit: str | tuple[str, ...] = "row",
        adjacency: str = "replace",
    ) -> Self:
        """Make the file of a new ledger.

        Parameters
        ----------
        path : str or path-like
            Path of the new file; no file may exist there.
        dataset : str
            Name of the data, for people.
        epsilon : float
            Largest total epsilon of all fits, ``0 < epsilon < inf``.
        delta : float
            Probability with which the guarantee may fail, ``0 <= delta < 1``. With 0 the ledger
            counts epsilon, and takes only fits whose delta is 0.
        unit : str or tuple of str, default="row"
            Name of the protected unit, as in the records of fits, such as "row", "record" or
            "user"; fits with another unit are refused. A tuple has units that are the same in these
            data: ``("row", "record")`` if a record of a regression or a classifier is a row with
            its response.
        adjacency : {"replace", "zero_out"}, default="replace"
            How neighboring datasets differ.

        Returns
        -------
        PrivacyLedger
            The ledger of the file.

        Raises
        ------
        ValueError
            If an argument is out of range.
        LedgerError
            If a file exists at `path`, the folder does not exist, or the file cannot be written.
        OSError
            If the system permits no new file in the folder.
        """
        limit = file.Limit.of(epsilon, delta)
        if not isinstance(dataset, str):
            # The file would show rows to everybody who opens it.
            raise ValueError(f"dataset must be a name for people, got {type(dataset).__name__}.")
        units = [unit] if isinstance(unit, str) else list(unit)
        if not units or not all(isinstance(one, str) and one.isidentifier() for one in units):
            raise ValueError(f"unit must be a name, or a tuple of names, got {shown(unit)}.")
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {shown(adjacency)}.")
        names = {"uuid": uuid.uuid4().hex, "dataset": dataset, "units": "\n".join(units)}
        head = {**names, "adjacency": adjacency, **vars(limit), "created": _now()}
        file.create_file(os.path.abspath(os.fsdecode(path)), head)
        return cls(path)

    def charge(self, spent: Any, what: str = "", *, note: str | None = None) -> None:
        """Charge a fit; when this returns, its cost is on disk.

        Estimators with a ledger call this method. Call it for fits of other tools, or earlier fits.

        Parameters
        ----------
        spent : PrivacySpent
            The record of a fit.
        what : str, default=""
            Name of the fit, for people.
        note : str or None, default=None
            Text to store with the charge; ``None`` is the note of the ledger object.

        Raises
        ------
        BudgetError
            If the fit costs more than is left, or protects another unit; then nothing is charged.
        TypeError, ValueError
            If `spent` is not a record, or `note` not a str.
        LedgerError
            If the file cannot be read or written; then nothing may be released.
        """
        self._charge(spent, what, note)

    def _charge(
        self, spent: Any, what: str, note: str | None = None, fit: str | None = None
    ) -> None:
        """Charge a fit; charge a federated fit, whose id is `fit`, again only if it was answered.

        An owner that crashes after its charge, but before it sends its first counts, begins again
        with the same id, and pays once. After an owner has sent counts, the fit is marked as
        answered: an owner that begins again would draw new noise, and pays again.
        """
        if not isinstance(spent, PrivacySpent):
            name = type(spent).__name__
            raise TypeError(f"spent must be the record of a fit, its privacy_spent_, got {name}.")
        check_note(note)
        with self._opened(writes=True) as (database, head, limit):
            file.check_sums(database, head, self.path)
            query = "SELECT fit FROM charge EXCEPT SELECT fit FROM answered"
            if fit is not None and {"fit": fit} in rows_of(database, query):
                return
            check_kind(head, spent)
            units, tails = limit.cost_of(spent)
            if units > limit.left(tails):
                raise BudgetError(refusal(self.path, spent, limit))
            row: dict[str, Any] = {"time": _now(), "what": str(what), "unit": spent.unit}
            row |= {"spent": units, "tails": tails, "fit": fit}
            row["note"] = self.note if note is None else note
            row |= {name: float(getattr(spent, name)) for name in file.NUMBERS}
            row |= {name: bool(getattr(spent, name)) for name in ("seeded", "enforced")}
            insert(database, "charge", row)
            database.execute("COMMIT")

    def _mark_answered(self, fit: str) -> None:
        """Mark a federated fit as answered: after this, `_charge` charges the fit again."""
        with self._opened(writes=True) as (database, _, _):
            database.execute("INSERT OR IGNORE INTO answered VALUES (?)", (fit,))
            database.execute("COMMIT")

    def remaining(
        self, n_fits: int = 1, delta: float | None = None, *, delta_tail: float = 0.0
    ) -> float:
        """Compute the largest epsilon that is left for further fits.

        Parameters
        ----------
        n_fits : int, default=1
            Number of further fits, all of the same cost.
        delta : float or None, default=None
            Delta of each fit; ``None`` is the delta of the ledger.
        delta_tail : float, default=0.0
            Part of `delta`, at most half, that each fit reserves for a tail event, as in
            :meth:`~skdp.DPTraceRegressor.plan`.

        Returns
        -------
        float
            Largest epsilon of each fit, rounded down; 0 if nothing is left.

        Raises
        ------
        ValueError
            If `n_fits` is not a positive int, or a probability is out of range.
        LedgerError
            If the file cannot be read.
        """
        if not isinstance(n_fits, Integral) or n_fits < 1:
            raise ValueError(f"n_fits must be an int of at least 1, got {shown(n_fits)}.")
        with self._opened() as (_, _, limit):
            own_delta = limit.delta if delta is None else float(delta)
        if limit.delta == 0 and own_delta:
            raise ValueError(f"delta must be 0, like the ledger's delta, got {own_delta!r}.")
        if not 0 <= own_delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {own_delta!r}.")
        if not 0 <= delta_tail <= own_delta / 2:
            raise ValueError(
                "delta_tail must be at least 0 and at most half of delta, got "
                f"delta={own_delta!r} and delta_tail={delta_tail!r}."
            )
        left = limit.left(int(n_fits) * limit.units_of_tail(delta_tail))
        return limit.epsilon_of_fit(left // int(n_fits), own_delta, float(delta_tail))

    def spent(self) -> tuple[float, float, float]:
        """Return the total cost so far.

        Returns
        -------
        mu : float
            Gaussian differential privacy of all fits together, rounded up.
        epsilon : float
            Epsilon at the delta of the ledger, rounded up.
        share : float
            Fraction of the limit that is spent.

        Raises
        ------
        LedgerError
            If the file cannot be read.
        """
        with self._opened() as (_, _, limit):
            return *limit.spent_mu_and_epsilon(), limit.spent / file.WHOLE

    def entries(self) -> list[dict[str, Any]]:
        """List all charges.

        Returns
        -------
        list of dict
            A dict for each charge, the oldest first; ``pandas.DataFrame`` takes the list.

        Raises
        ------
        LedgerError
            If the file cannot be read.
        """
        with self._opened() as (database, _, _):
            return file.read_charges(database, self.path)

    def report(self) -> str:
        """Describe the limit, the remaining budget, and all charges.

        Returns
        -------
        str
            A text of several lines.

        Raises
        ------
        LedgerError
            If the file cannot be read.
        """
        with self._opened() as (database, head, limit):
            return report_of(self.path, head, limit, file.read_charges(database, self.path))

    def verify(self) -> None:
        """Check that the file is valid, and that its charges add up to what it counts as spent.

        Raises
        ------
        LedgerError
            If the check fails.
        """
        with self._opened() as (database, head, limit):
            if rows_of(database, "PRAGMA integrity_check") != [{"integrity_check": "ok"}]:
                raise LedgerError(f"{self.path!r} is damaged.")
            file.check_sums(database, head, self.path)
            for charge in file.read_charges(database, self.path):
                units, tails = limit.cost_of(SimpleNamespace(**charge))
                # The version of skdp that wrote the charge may have rounded its cost differently.
                rounding = max(1, charge["spent"] >> 24)
                is_equal = abs(units - charge["spent"]) <= rounding and tails == charge["tails"]
                if not is_equal:
                    raise LedgerError(f"{self.path!r} is damaged: charge {charge['id']} is wrong.")

    @contextmanager
    def _opened(self, *, writes: bool = False) -> Iterator[tuple[Any, dict[str, Any], file.Limit]]:
        """Open the file, and check that it is still the ledger for which this object was made."""
        with file.open_file(self.path, writes=writes) as database:
            if writes:
                # From here on nobody else can write: so no other fit is charged before this one.
                database.execute("BEGIN IMMEDIATE")
            head = file.read_head(database, self.path)
            if self._uuid not in (None, head["uuid"]):
                raise LedgerError(f"{self.path!r} is another ledger now: restore the first one.")
            facts = (head[name] for name in ("epsilon", "delta", "mu", "spent", "tails"))
            yield database, head, file.Limit(*facts)

    def __sklearn_clone__(self) -> "PrivacyLedger":
        return self

    def __repr__(self) -> str:
        note = "" if self.note is None else f", note={self.note!r}"
        return f"PrivacyLedger({self.path!r}{note})"

    def _repr_html_(self) -> str:
        return as_html(self.report())


def _now() -> str:
    # Times are for people only: the order of the charges is the order of their ids.
    return datetime.now(UTC).isoformat()
