"""A federated fit: what its owners agree on, and the coordinator, who sums their counts."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from numbers import Integral
from typing import Any

import numpy as np
import scipy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import PrivateEstimator, check_unwatched, parameters_by_value, plan_of
from skdp._validation import AT_LEAST_ONE, validate_plain
from skdp.covariance import DPCovariance
from skdp.data.containers import as_feature_names, names_of
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import FederationError, counted, shortened, warn_of_privacy
from skdp.federated._agreement import (
    MOST_ROWS,
    Agreement,
    Terms,
    agreement_of,
    null_record,
    opened_pipeline,
    run_fit,
    source_of_view,
    view_of,
)
from skdp.federated._masks import History, Summed, checked_sum, digest, sum_modulo
from skdp.federated._messages import TO_COORDINATOR, Message, pack, unpack
from skdp.federated._owner import Owner
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPTraceRegressor
from skdp.linear_model._supervised import given_classes
from skdp.pipeline import DPPipeline
from skdp.pipeline._composition import steps_of
from skdp.pipeline._run import n_components_of
from skdp.preprocessing import DPStandardScaler
from skdp.preprocessing.intervals import in_order
from skdp.privacy import Plan
from skdp.privacy.noise import digest_of
from skdp.privacy.precision import as_python
from skdp.privacy.shares import ShareLayout, Shares
from skdp.units import Interaction

#: A function that sends messages to owners, and returns their answers; both by numbers of owners.
Send = Callable[[dict[int, bytes]], Mapping[int, bytes]]


class Coordinator:
    """Leads a federated fit: asks all owners for counts, sums the counts, and gets the model.

    The coordinator runs the same fit as every owner, without rows. If sums are masked, the
    coordinator sees only the sums over all owners, which the fit releases.

    Parameters
    ----------
    federation : Federation
        The agreement of all owners.

    See Also
    --------
    Owner : Answers the messages.

    Notes
    -----
    **Privacy.** A coordinator has no private data. The user guide has a section "Across owners" on
    how a coordinator may attack owners.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.federated import Coordinator, Federation
    >>> pca = DPPCA(2, row_norm=5.0, mean_norm=5.0)
    >>> federation = Federation(pca, n_rows=600, n_features=4, owners=3)
    >>> coordinator = Coordinator(federation)
    >>> coordinator.run(lambda messages: {})
    Traceback (most recent call last):
        ...
    skdp.exceptions.FederationError: No answer from the following of the 3 owners: 0, 1, 2. ...
    """

    def __init__(self, federation: Any) -> None:
        self._agreement = agreement_of(federation)

    def run(self, send: Send) -> PrivateEstimator:
        """Run the fit.

        A run that failed because an owner did not answer can be started again: owners give the same
        answers to the same questions, until the fit has ended.

        Parameters
        ----------
        send : callable
            Gets the messages to owners, a dictionary of bytes by the numbers of owners, and returns
            their answers in the same form. Called once for every exchange.

        Returns
        -------
        estimator
            The fitted model, which every owner has, too.

        Raises
        ------
        FederationError
            If an owner does not answer, or violates the agreement. The budget of the fit is spent.
        """
        agreement = self._agreement
        exchanges = _Exchanges(agreement, send)
        # The coordinator has no rows: it runs the fit on a record of zeros.
        null = view_of(agreement, agreement.null, agreement.null_target)
        model, warnings = run_fit(agreement, null, exchanges.sum_counts)
        exchanges.end()
        warn_of_privacy(*warnings)
        return model


class _Exchanges:
    """Sends the questions of a fit to all owners, and checks their answers."""

    def __init__(self, agreement: Agreement, send: Send) -> None:
        self._agreement, self._send = agreement, send
        self._n_released, self._absent = 0, tuple[int, ...]()
        self._last_sum: list[np.ndarray] = []  # the sum of the last release, if any
        keys, self._confirmations = self._gather_keys() if agreement.is_masked else (b"", [])
        self._history = History(agreement.digest, keys)

    def sum_counts(self, layout: ShareLayout, part: np.ndarray) -> Summed:
        """Ask all owners for their counts of a release, and return the sum of the counts."""
        if self._agreement.dropouts:
            self._call_roll(self._send_last_sum("ready", self._history.before(layout)))
            fields = {"release": self._n_released, "absent": list(self._absent)}
            answers = self._ask("hand_in", fields, expected="answer")
            self._check(answers, self._history.before(layout, self._absent))
        else:
            answers = self._send_last_sum("answer", self._history.before(layout))
        words = sum_modulo([answer.arrays[0] for answer in answers.values()], layout.words)
        total = checked_sum(words, layout)
        self._last_sum = [words]
        self._history.add(total, self._absent)
        self._n_released += 1
        return total, self._absent

    def end(self) -> None:
        """Send the last sum to all owners; check that all owners have received the same sums."""
        self._send_last_sum("end", self._history.before(None))

    def _send_last_sum(self, expected: str, history: bytes) -> dict[int, Message]:
        """Send the last sum to all owners; check that they have got the same messages so far."""
        confirmations = self._confirmations if self._n_released == 0 else []
        fields = {"release": self._n_released, "confirmations": confirmations}
        kind = "ready" if self._agreement.dropouts else "answer"
        answers = self._ask(kind, fields, *self._last_sum, expected=expected)
        self._check(answers, history)
        return answers

    def _check(self, answers: Mapping[int, Message], history: bytes) -> None:
        """Refuse answers about another release, or from owners with another `history` so far."""
        # With different histories, masks would not cancel, and the sum would be meaningless.
        expected = {"release": self._n_released, "digest": history.hex()}
        if any(not expected.items() <= answer.fields.items() for answer in answers.values()):
            raise FederationError(
                "Owners disagree about the fit or versions of libraries; or send has returned "
                "answers to earlier messages."
            )

    def _call_roll(self, ready: Mapping[int, Message]) -> None:
        """Decide who is absent from a release: owners who do not answer that they are ready.

        If the run was started again, owners may have handed in their counts of this release before.
        Then the same owners must be absent as in the earlier roll call.
        """
        named = [answer.fields["absent"] for answer in ready.values()]
        earlier = {tuple(absent) for absent in named if absent is not None}
        silent = set(range(self._agreement.n_owners)) - ready.keys()
        if len(earlier) > 1:
            raise FederationError("Owners have answered one release after two roll calls.")
        self._absent = earlier.pop() if earlier else tuple(sorted(silent))
        if missing := sorted(silent - set(self._absent)):
            raise self._missing(missing)

    def _missing(self, numbers: list[int]) -> FederationError:
        """Return the error that names owners who have not answered."""
        names = shortened(list(map(str, numbers)))
        return FederationError(
            f"No answer from the following of the {self._agreement.n_owners} owners: {names}. "
            "Owners who come back with their state can be asked again; without them the fit has "
            "ended, and its budget is spent."
        )

    def _gather_keys(self) -> tuple[bytes, list[list[Any]]]:
        """Return the digest of all keys, and each owner's confirmation that it has all keys."""
        answers = self._ask("keys", {})
        publics, signatures = _listed(answers, "public"), _listed(answers, "signature")
        confirmed = self._ask("confirm", {"publics": publics, "signatures": signatures})
        keys = digest(*(bytes.fromhex(public) for _, public in publics))
        return keys, _listed(confirmed, "signature")

    def _ask(
        self, kind: str, fields: dict[str, Any], *arrays: np.ndarray, expected: str = ""
    ) -> dict[int, Message]:
        """Send a question to all owners who are not absent; return their answers.

        All answers must be of the kind `expected`, by default the kind of the question.
        """
        n_owners = self._agreement.n_owners
        question = pack(kind, {"agreement": self._agreement.digest.hex(), **fields}, *arrays)
        asked = [number for number in range(n_owners) if number not in self._absent]
        replies = self._send(dict.fromkeys(asked, question))
        missing = [number for number in asked if number not in replies]
        n_may_leave = self._agreement.dropouts - len(self._absent) if kind == "ready" else 0
        if len(missing) > n_may_leave:
            raise self._missing(missing)
        answers = {n: unpack(replies[n], TO_COORDINATOR, n_owners) for n in asked if n in replies}
        for number, answer in answers.items():
            if answer.kind != (expected or kind) or answer.fields["owner"] != number:
                raise FederationError(
                    f"Owner {number} has answered another question: send must return the answers "
                    "to the messages that it got."
                )
        return answers


def _listed(answers: Mapping[int, Message], field: str) -> list[list[Any]]:
    """Return a field of all answers as pairs [number of the owner, value], for JSON."""
    return [[number, answer.fields[field]] for number, answer in answers.items()]


# ------------------------------
# What can be fitted across owners, and the federation, which has all that owners agree on.

_NOT_NEGATIVE = Interval(Integral, 0, None, closed="left")  # not tuned
_CONSTRAINTS: dict[str, Any] = {
    "n_features": [AT_LEAST_ONE, None],
    "owners": [AT_LEAST_ONE],
    "unit": [StrOptions({"row", "owner"})],
    "aggregator": [StrOptions({"masked", "trusted", "none"})],
    **{name: [_NOT_NEGATIVE] for name in ("colluding", "dropouts", "seed")},
    "sparse": ["boolean"],
}
#: Estimators that can be fitted across owners: their fits release only sums over rows.
FITTED: tuple[type[PrivateEstimator], ...] = (
    *(DPPCA, DPTruncatedSVD, DPStandardScaler, DPCovariance),
    *(DPLinearRegression, DPLogisticRegression, DPTraceRegressor),
)


def _described(estimator: Any) -> tuple[Any, ...]:
    """Return the class and the parameters of an estimator, or of each step of a pipeline."""
    if not isinstance(estimator, DPPipeline):
        return type(estimator).__name__, parameters_by_value(estimator)
    epsilon, delta = map(as_python, (estimator.epsilon, estimator.delta))
    steps = [
        (one.name, type(one.estimator).__name__, one.share, parameters_by_value(one.estimator))
        for one in steps_of(estimator)
    ]
    return "DPPipeline", epsilon, delta, *steps


def _null_target(estimator: Any) -> Any:
    """Return a target for the record of zeros: the response 0, or the first label."""
    models = [estimator]
    if isinstance(estimator, DPPipeline):
        models = [step.estimator for step in steps_of(estimator)]
    for model in models:
        if hasattr(model, "classes"):
            return given_classes(model.classes)[:1]
    return np.zeros(1)


def _check_estimator(estimator: Any, unit: str) -> None:
    """Refuse fits that release more than sums, and units that owners cannot protect."""
    # Subclasses are refused, as they may release more.
    if type(estimator) not in (*FITTED, DPPipeline):
        names = ", ".join(one.__name__ for one in FITTED)
        raise TypeError(
            f"estimator must be one of {names} or a DPPipeline of these, got "
            f"{type(estimator).__name__}: other fits release more than sums over rows. Apply steps "
            "that learn nothing, and FrozenEstimator, to the rows of each owner before."
        )
    estimator._validate_params()
    check_unwatched(
        "estimator: ", estimator, "fits across owners call none, and set_callbacks() removes them"
    )
    if estimator.random_state is not None:
        raise ValueError(
            "random_state must be None: owners draw their noise from the operating system. seed, "
            "which is public, sets the random start of the algorithm."
        )
    if estimator.ledger is not None:
        raise ValueError("ledger of the estimator must be None: each owner has its own.")
    if isinstance(estimator, DPPipeline):
        for _, one in estimator.steps:
            _check_estimator(one, unit)
            if n_components_of(one) == "data":
                raise ValueError(
                    "n_components of a step across owners must be an int or None: all sizes of "
                    "messages are agreed on before the fit, and later steps depend on this number."
                )
        return
    given = estimator.privacy_unit
    if not (type(given) is Interaction or (isinstance(given, str) and given in ("row", "record"))):
        raise ValueError(
            "Across owners privacy_unit must be 'row', 'record' for models with y, or "
            f"Interaction(), got {given!r}. unit='owner' protects all rows of an owner."
        )
    if unit == "owner" and type(given) is Interaction:
        raise ValueError(f"unit='owner' needs privacy_unit='row', got {given!r}.")


def _shares_of(
    owners: int, n_rows: Any, unit: str, aggregator: str, colluding: int, dropouts: int
) -> Shares:
    """Return the shares of noise that owners add, with a text about whom the owners trust."""
    n_honest = owners - colluding - dropouts
    if n_honest < 1:
        raise ValueError(
            f"{colluding=} and {dropouts=} must add to less than {owners=}: pass more owners."
        )
    sizes = _checked_sizes(n_rows, owners, unit, dropouts)
    n_units = sum(sizes) if sizes else int(n_rows)
    trust = {
        "masked": f"masks hide all but sums of {owners} owners, {colluding} of whom may collude "
        "with the server, which is not trusted",
        "trusted": f"a server sums parts of {owners} owners, and is trusted not to read them",
        "none": f"local: each of {owners} owners adds all of the noise, and nobody is trusted",
    }
    n_honest = 1 if aggregator == "none" else n_honest
    return Shares(owners, n_honest, n_units, sizes, trust[aggregator])


def _checked_sizes(n_rows: Any, owners: int, unit: str, dropouts: int) -> tuple[int, ...]:
    """Return the number of units of each owner; () if only their sum is public."""
    if unit == "owner":
        if n_rows is not None and n_rows != owners:
            raise ValueError(
                f"n_rows must be None with unit='owner', where each of the {owners} owners is one "
                f"unit and the numbers of their rows are private, got {n_rows!r}."
            )
        return (1,) * owners
    if n_rows is None:
        raise TypeError("With unit='row', n_rows must be the number of rows of all owners.")
    if not isinstance(n_rows, Iterable):
        check_scalar(n_rows, "n_rows", Integral, min_val=owners)
        if dropouts:
            raise ValueError(
                f"With dropouts={dropouts}, n_rows must be a list of the numbers of rows of each "
                f"owner, got {n_rows!r}."
            )
        return ()
    sizes = tuple(n_rows)
    for size in sizes:
        check_scalar(size, "n_rows of an owner", Integral, min_val=1)
    if len(sizes) != owners:
        raise ValueError(f"n_rows must have the numbers of {owners} owners, got {len(sizes)}.")
    return tuple(map(int, sizes))


class Federation:
    """A fit that owners of rows agree on: they get one model, and nobody reveals rows.

    Every party runs the same fit on its own rows. Where the fit releases a noisy sum, each owner
    sends its part of the sum with a share of the noise, and all continue with the sum of all parts.
    So the model is the same as after a fit to all rows together, with slightly more noise: the
    noise std is sqrt(s / H) times that in the plan, for s owners, H of whom count as honest.

    Parameters
    ----------
    estimator : estimator
        The estimator to fit, which stays as it is: a :class:`skdp.DPPCA`,
        :class:`skdp.DPTruncatedSVD`, :class:`skdp.DPStandardScaler`, :class:`skdp.DPCovariance`,
        :class:`skdp.DPLinearRegression`, :class:`skdp.DPLogisticRegression` or
        :class:`skdp.DPTraceRegressor`, or a :class:`skdp.DPPipeline` of them. Its unit is
        ``"row"``, ``"record"`` or a :class:`skdp.units.Interaction`; it has no ledger and no
        `random_state`.
    n_rows : int, sequence of int or None
        Number of rows of all owners together, which owners in separate processes cannot check: a
        wrong number spoils the model. Or the number of rows of each owner, which each owner checks,
        and which is then public. None with ``unit="owner"``.
    n_features : int or None, default=None
        Number of features; None if `like` is given.
    owners : int
        Number of owners, s. All owners take part in the whole fit, except for `dropouts`.
    unit : {"row", "owner"}, default="row"
        What is protected: one row, or all rows of an owner. With ``"owner"`` each owner contributes
        the mean over its rows, so all owners have the same weight; numbers of rows are private.
    aggregator : {"masked", "trusted", "none"}, default="masked"
        Who sums the parts. ``"masked"``: a server that can read only the sum of all owners.
        ``"trusted"``: a server that is trusted not to read the parts. ``"none"``: nobody is
        trusted, and each part has the full noise, which is the local model.
    colluding : int, default=1
        Up to this many owners may share all they know with each other and the server. H is ``owners
        - colluding - dropouts``, or 1 if `aggregator` is ``"none"``. If `colluding` is 1, owners
        are protected from each other; if 0, only from outsiders.
    dropouts : int, default=0
        Up to this many owners may leave between two answers; the fit continues without them, and
        scales up the sums of the rows that are left. The record of the model lists absent owners.
        If positive, `n_rows` lists the rows of each owner, or is None with ``unit="owner"``, and
        each release takes two exchanges.
    seed : int, default=0
        Public seed of the random start of the algorithm. Noise never depends on it.
    sparse : bool, default=False
        Whether the rows of all owners are sparse. Only without `like`.
    like : object or None, default=None
        An X of any length that a fit would take. The agreement has its dtype, its shape without the
        first axis, the names of its features and whether it is sparse, but none of its values.

    Attributes
    ----------
    plan : Plan
        All releases, known before any data are seen.
    noise_factor : float
        sqrt(s / H), the noise std of sums divided by the noise std in the plan.

    Raises
    ------
    BudgetError
        If the budget is too small for a release with so many numbers, or for so many owners.
    TypeError
        If `estimator` is of another class, or has callbacks; if the number of features is missing.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    Owner : One owner, in a process of its own.
    Coordinator : Sums the counts of owners.

    Notes
    -----
    **Privacy.** Unit: one row, or all rows of one owner; adjacency as in the estimator. Mechanism:
    Gaussian noise in shares, rounded to a public lattice; sums modulo ``2 ** 32`` or ``2 ** 64``.
    What the server and up to `colluding` owners see together is mu-GDP for the rows of all other
    owners, whatever the server sends; with masks, this holds against limited computing power.
    Released: the releases of the estimator. Assumed public: all parameters, and so the number of
    owners, but not their parts of sums. Nobody has audited the masks. Not covered: the number of
    rows of an owner with ``unit="row"``, sums that an owner spoils, rows of one person at several
    owners, and timing.

    References
    ----------
    .. [1] J. Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024). "Differentially
       private and decentralized randomized power method". :arxiv:`2411.01931`
    .. [2] K. Bonawitz et al. (2017). "Practical secure aggregation for privacy-preserving machine
       learning". CCS. :doi:`10.1145/3133956.3133982`

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.federated import Federation
    >>> X = load_digits().data
    >>> pca = DPPCA(5, row_norm=55.0, mean_norm=60.0)
    >>> federation = Federation(pca, n_rows=len(X), n_features=64, owners=10)
    >>> model = federation.fit([X[i::10] for i in range(10)])
    >>> model.components_.shape
    (5, 64)
    """

    def __init__(
        self,
        estimator: Any,
        n_rows: int | Sequence[int] | None,
        n_features: int | None = None,
        *,
        owners: int,
        unit: str = "row",
        aggregator: str = "masked",
        colluding: int = 1,
        dropouts: int = 0,
        seed: int = 0,
        sparse: bool = False,
        like: Any = None,
    ) -> None:
        given = {"n_features": n_features, "owners": owners, "unit": unit, "aggregator": aggregator}
        given |= {"colluding": colluding, "dropouts": dropouts, "seed": seed, "sparse": sparse}
        validate_plain(_CONSTRAINTS, given, "Federation")
        _check_estimator(estimator, unit)
        # Sums of numpy integers of few bits would wrap around.
        owners, colluding, dropouts, seed = map(int, (owners, colluding, dropouts, seed))
        shares = _shares_of(owners, n_rows, unit, aggregator, colluding, dropouts)
        null, names = null_record(n_features, sparse=sparse, like=like)
        is_unit_owner = unit == "owner"
        terms = Terms(shares, MOST_ROWS if is_unit_owner else shares.n_units, is_unit_owner, seed)
        # A clone has copies of the parameters, and nothing of a fit.
        estimator, spec, agreed, depth = clone(estimator), None, None, 0
        described, target = _described(estimator), _null_target(estimator)
        if isinstance(estimator, DPPipeline):
            for _, step in estimator.steps:
                # Steps get rows without names, so bounds by name get the order of the columns.
                if names and isinstance(getattr(step, "bounds", None), Mapping):
                    step.set_params(bounds=in_order(step.bounds, names))
            plan, warnings = opened_pipeline(estimator, terms, null, target)
        else:
            spec, agreed = terms.spec_of(estimator, null if like is None else like, null)
            depth = agreed.depth
            plan = plan_of(spec, estimator._plan(spec))
            warnings = list(estimator._public_warnings(spec, plan))
        # Before data are read, refuse releases that are too large for the integers of a sum.
        for release in {one for branch in plan.branches for one in branch}:
            shares.planned(plan.cost, release)
        versions = sys.modules["skdp"].__version__, np.__version__, scipy.__version__
        of_rows = (null.shape[1:], str(null.dtype), type(null).__name__, tuple(names or ()))
        numbers_of_fit = shares.n_units, owners, colluding, dropouts, seed, depth
        facts = *of_rows, unit, aggregator, *numbers_of_fit, *shares.sizes
        self._agreement = Agreement(
            **vars(terms),
            estimator=estimator,
            spec=spec,
            agreed=agreed,
            null=null,
            null_target=target,
            names=names,
            plan=plan,
            is_masked=aggregator == "masked",
            dropouts=dropouts,
            digest=digest_of("skdp federation", *versions, *described, *facts),
        )
        warn_of_privacy(*warnings)

    @property
    def plan(self) -> Plan:
        """All releases, known before any data are seen."""
        return self._agreement.plan

    @property
    def noise_factor(self) -> float:
        """The noise std of sums, divided by the noise std in the plan."""
        return self._agreement.shares.excess()

    def fit(self, parts: Sequence[Any], y: Any = None, *, ledger: Any = None) -> Any:
        """Run the fit of all parties in this process, with the messages of separate processes.

        Parameters
        ----------
        parts : list of {array-like, sparse matrix, RowBlocks}
            The rows of each owner. The columns of all parts have one order: data frames with
            different names are refused. The model has ``feature_names_in_`` if `like` has names.
        y : sequence of array-like or None, default=None
            The responses or labels of each owner, for a model that has them.
        ledger : PrivacyLedger or None, default=None
            Charged with the whole plan before the first noise is drawn.

        Returns
        -------
        estimator
            The fitted model.

        Raises
        ------
        BudgetError
            If the fit exceeds the limit of the ledger; nothing has been spent then.
        TypeError
            If `parts` is not a list or tuple.
        ValueError
            If the parts violate the agreement; nothing has been spent then.
        """
        self._check_parts(parts, y)
        identities = [Ed25519PrivateKey.generate() for _ in parts]
        peers = [identity.public_key() for identity in identities]
        targets = [None] * len(parts) if y is None else y
        with ExitStack() as stack:
            owners: list[Owner] = []
            for number, (X, target) in enumerate(zip(parts, targets, strict=True)):
                # The first owner charges the ledger for the whole fit, before any owner answers.
                charged = None if number else ledger
                keys: dict[str, Any] = {"identity": identities[number], "peers": peers}
                try:
                    owner = Owner(self, number, X, target, **keys, ledger=charged)
                except (TypeError, ValueError) as error:
                    error.add_note(f"This is about parts[{number}].")
                    raise
                owners.append(stack.enter_context(owner))
            n_units = self._agreement.shares.n_units
            n_rows = sum(source_of_view(one._rows).shape[0] for one in owners)
            if not self._agreement.is_unit_owner and n_rows != n_units:
                raise ValueError(f"parts have {n_rows} rows, but n_rows={n_units} is agreed on.")
            return Coordinator(self).run(
                lambda messages: {i: owners[i].handle(one) for i, one in messages.items()}
            )

    def _check_parts(self, parts: Sequence[Any], y: Any) -> None:
        """Refuse parts for another number of owners, or with different columns."""
        agreement = self._agreement
        n, got = agreement.n_owners, type(parts).__name__
        if not isinstance(parts, list | tuple):
            raise TypeError(
                f"parts must be a list with the rows of each of the {n} owners, got {got}: pass "
                f"[X[i::{n}] for i in range({n})], and y likewise."
            )
        if len(parts) != n:
            raise ValueError(f"parts must be of {n} owners, got {len(parts)}.")
        if y is not None and len(y) != len(parts):
            raise ValueError(f"y must be a list with the targets of {len(parts)} owners.")
        # Sums go by the position of columns, so data frames with different names are refused.
        named = (getattr(part, "feature_names", None) or names_of(part) for part in parts)
        found = [names for names in map(as_feature_names, named) if names]
        if any(names != found[0] for names in found):
            raise ValueError(
                "parts must have the same columns in the same order, but the names of their "
                "columns differ. Select them by name in each part, as part[['a', 'b']] does."
            )

    def __repr__(self) -> str:
        agreement, plan, shares = self._agreement, self.plan, self._agreement.shares
        n_bytes = sum(shares.planned(plan.cost, one).n_bytes for one in plan.releases)
        # Exchanges: two for keys, one for each release of the longest branch (two with a roll
        # call), and one at the end.
        n_of_releases = plan.n_releases * (2 if agreement.dropouts else 1)
        n_exchanges = 2 * agreement.is_masked + n_of_releases + 1
        return (
            f"Federation of {shares.n_owners} owners, {counted(shares.n_honest, 'honest share')}:\n"
            f"  agreement: {agreement.digest.hex()[:16]}, the same for all parties\n"
            f"  noise std of sums: {shares.excess():.4g} times that of the plan\n"
            f"  exchanges: {n_exchanges} at most\n"
            f"  an owner sends and gets {n_bytes / 1e3:,.1f} kB of numbers each\n"
            f"{plan!r}"
        )
