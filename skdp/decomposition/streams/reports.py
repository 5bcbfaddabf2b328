"""Reports to which each person adds noise, and low-rank factors of the reports that arrive."""

import math
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from skdp import _validation as checks
from skdp._estimator import BudgetMixin
from skdp.decomposition._matrix_estimator import LowRankFactors
from skdp.exceptions import counted, shown, warn_of_privacy
from skdp.linalg.denoising import debiased, shrunk
from skdp.linalg.matrices import truncate
from skdp.privacy import Plan, PrivacyBudget, sensitivity
from skdp.privacy.clipping import clip_rows
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python

__all__ = ["LocalReports"]

#: Name of the release of a report.
REPORT = "report"  # not tuned
# Reports are shortened to the clipping norm plus the length of noise: its mean plus this many
# standard deviations. An honest report is longer with a probability of at most 2e-8.
_LONGEST = 6.0  # not tuned
# Parameters that are floats; the first line of a report gives their values.
_NUMBERS = ("row_norm", "epsilon", "delta")
_NOT_ROWS = "Rows are not private: each person calls report(row), and sends the result alone."


@checks.with_parameters
class LocalReports(BudgetMixin):  # numpydoc ignore=PR02
    """Low-rank factors of rows, to which each person adds noise before sending the row.

    This is the local model: nobody is trusted. All parties know the parameters. A person calls
    `report` once, where the row is, and sends the result, at any time and by any channel; nobody
    waits for other people. Whoever has reports, however many, calls `aggregate`. There is far more
    noise than if one party may see the rows; the noise in the factors falls with the root of the
    number of reports.

    Parameters
    ----------
    n_features : int
        Number of entries of a row.
    row_norm : float
        Public bound to which the Euclidean norm of each row is clipped.
    epsilon : float, default=1.0
        Privacy budget of one report, dimensionless, ``0 < epsilon <= inf``. Smaller is more
        private; ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``.
    ledger : PrivacyLedger or None, default=None
        Charged with each report, for the person who makes it. ``None`` keeps no ledger.

    See Also
    --------
    skdp.federated.Federation : Masked sums in a protocol, with far less noise.
    DPTruncatedSVD : Factors of rows in one place.

    Notes
    -----
    **Privacy.** Unit: the row of the person, exchanged for any other. Mechanism: Gaussian,
    accounted for exactly in Gaussian differential privacy; the noise comes from the operating
    system of whoever calls `report`. Released: the clipped row with noise on every entry. The
    guarantee holds against everybody, including whoever aggregates, whatever other people do.
    Assumed public: the parameters, and who reports. A person who reports twice spends twice, which
    a ledger limits. Aggregates are functions of reports, and covered.

    A report has 8 bytes a feature, and a line that names the parameters: `aggregate` refuses rows
    that nobody has made a report of. In figure 9 of Upadhyay (2016, :arxiv:`1604.01429`) people
    send sketches of rows, which are shorter and lose more; the printed algorithm spends more than
    the paper claims: ``benchmarks/papers/local_factorization.md``. Mathematics:
    :doc:`/low_rank_factorization`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import LocalReports
    >>> rows = np.outer(np.arange(1.0, 501), [3, 4, 0, 0]) / 2500
    >>> local = LocalReports(n_features=4, row_norm=1.0, epsilon=8.0)
    >>> reports = [local.report(row) for row in rows]  # each on another device
    >>> factors = local.aggregate(reports, n_components=1)
    >>> factors.components_.shape, factors.left_components_.shape
    ((1, 4), (500, 1))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetMixin._parameter_constraints,
        "n_features": [checks.AT_LEAST_ONE],
        "row_norm": [checks.FINITE_BOUND],
        "delta": checks.BUDGET["delta"],
    }

    n_features: int
    _: KW_ONLY
    row_norm: float
    epsilon: float = 1.0
    delta: float = 1e-6
    ledger: Any = None

    def __post_init__(self) -> None:
        self._validate_params()

    def __repr__(self) -> str:
        numbers = (f"{name}={float(getattr(self, name))}" for name in _NUMBERS)
        return f"{type(self).__name__}({int(self.n_features)}, {', '.join(numbers)})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def plan(self) -> Plan:
        """List what one report releases and spends.

        Returns
        -------
        Plan
            One release.
        """
        cost = PrivacyCost(float(self.epsilon), float(self.delta))
        change = sensitivity.row_sum
        known = {"row_norm": float(self.row_norm), "adjacency": "replace"}
        shape = (int(self.n_features),)
        release = cost.release(REPORT, "gaussian", 1.0, change, known, shape=shape)
        return Plan(cost, release, unit="row", adjacency="replace")

    def report(self, row: Any) -> bytes:
        """Make the report of one person: the clipped row with noise. Call it once for each person.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            The row, which does not leave this call.

        Returns
        -------
        bytes
            The report, which may be sent to anybody: a line that names the parameters, and the
            noisy row as little-endian floats of 8 bytes.

        Raises
        ------
        ValueError
            If `row` does not have `n_features` finite numbers. Then nothing is spent.
        """
        checked = checks.check_numbers(row, "row", ensure_2d=False)
        if checked.shape != (self.n_features,):
            raise ValueError(
                "Call report once for each person, with one row of "
                f"n_features={self.n_features} numbers, got shape {checked.shape}."
            )
        with np.errstate(all="ignore"):
            clipped = clip_rows(checked[np.newaxis].copy(), float(self.row_norm))[0]
        plan = self.plan()
        budget = self._open_budget(plan, f"report of {self!r}")
        noisy = budget.release(plan.parts, clipped).value
        # The line tells a report from a row, and from reports of other parameters.
        return f"{self!r}\n".encode() + noisy.astype("<f8").tobytes()

    def aggregate(self, reports: list[bytes], n_components: int = 2) -> LowRankFactors:
        """Compute factors of the rows in reports.

        Parameters
        ----------
        reports : list of bytes
            Results of `report` with these parameters. Forged reports can move the factors as far as
            that many rows of norm `row_norm` and their noise.
        n_components : int, default=2
            Number of components, at most the number of reports and of features.

        Returns
        -------
        LowRankFactors
            Right factors, which improve with the number of reports; singular values, shrunk for the
            noise; and left factors, a row for each report. `privacy_spent_` records one report.

        Raises
        ------
        ValueError
            If something in `reports` was not made by `report` with these parameters, or if there
            are fewer reports than components.
        """
        values = self._noisy_rows(reports)
        n_features, most = values.shape[1], min(values.shape)
        n_components = as_python(n_components)
        if type(n_components) is not int or not 1 <= n_components <= most:
            raise ValueError(
                f"n_components={shown(n_components)} must be an int from 1 to {most}, "
                "the smaller of the numbers of reports and features."
            )
        plan = self.plan()
        noise_std = plan.parts.noise_std or 0.0
        with np.errstate(all="ignore"):
            longest = self.row_norm + noise_std * (math.sqrt(n_features) + _LONGEST)
            values = clip_rows(values, longest) if noise_std else values
        fit = truncate(values, n_components)
        lengths = debiased(fit.values, noise_std, values.shape)
        lengths = shrunk(lengths, noise_std, values.shape)
        if noise_std and (n_visible := int((lengths > 0).sum())) < n_components:
            warn_of_privacy(
                f"Only {n_visible} of {counted(n_components, 'component')} stand out from the "
                "noise. Ask for fewer components, collect more reports, or use a larger epsilon."
            )
        # The record of a report does not depend on the row, so a row of zeros gives the record.
        budget = PrivacyBudget.of(plan)
        budget.release(plan.parts, np.zeros(n_features))
        return LowRankFactors._of(fit.with_values(lengths), budget.spent())

    def _noisy_rows(self, reports: Any) -> np.ndarray:
        """Read reports; refuse all else, as the record would call rows without noise private."""
        if not isinstance(reports, list | tuple) or not reports:
            raise ValueError(
                "reports must be a list of results of report, one for each person, got "
                f"{type(reports).__name__}. {_NOT_ROWS}"
            )
        line = f"{self!r}\n".encode()
        size = len(line) + 8 * int(self.n_features)
        for place, one in enumerate(reports):
            if not isinstance(one, bytes) or not one.startswith(line) or len(one) != size:
                raise ValueError(
                    f"reports[{place}] is no result of report of {self!r}: make it with these "
                    f"parameters, or leave it out. {_NOT_ROWS}"
                )
        noisy = [np.frombuffer(one, "<f8", offset=len(line)) for one in reports]
        return checks.check_numbers(np.array(noisy), "reports")
