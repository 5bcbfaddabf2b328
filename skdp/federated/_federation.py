"""The coordinator of a federated fit, and the public agreement of its owners."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skdp._estimator import PrivateEstimator
from skdp.data.containers import as_feature_names, names_of
from skdp.exceptions import FederationError, shortened, warn_of_privacy
from skdp.federated._agreement import Agreement, agree, agreement_of, no_rows, run_fit
from skdp.federated._masks import Story, checked_sum, digest, sum_modulo
from skdp.federated._messages import TO_COORDINATOR, Message, pack, unpack
from skdp.federated._owner import Owner
from skdp.privacy import Plan
from skdp.privacy.shares import ShareLayout

#: Sends a message to each owner, by its number, and returns their answers.
Send = Callable[[dict[int, bytes]], Mapping[int, bytes]]


class Coordinator:
    """Leads a federated fit: asks all owners, adds up their counts, and gets the model.

    It runs the same fit as every owner, and has no rows. With masked sums it sees nothing but the
    sum of all owners, which is what the fit releases.

    Parameters
    ----------
    federation : Federation
        What all owners have agreed on.

    See Also
    --------
    Owner : Answers the messages.

    Notes
    -----
    **Privacy.** A coordinator has no private data. What it may do to owners stands in the user
    guide, under "Across owners".

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
    skdp.exceptions.FederationError: No answer from these of the 3 owners: 0, 1, 2. Those who ...
    """

    def __init__(self, federation: Any) -> None:
        self._agreement = agreement_of(federation)

    def run(self, send: Send) -> PrivateEstimator:
        """Run the fit.

        A run that failed because an owner did not answer can be started again: all owners give the
        same answers to the same questions, up to where it has ended.

        Parameters
        ----------
        send : callable
            Takes messages to all owners, as a dictionary of bytes by the numbers of owners, and
            returns their answers in the same way. It is called once for every exchange.

        Returns
        -------
        estimator
            The fitted model, the same as that of every owner.

        Raises
        ------
        FederationError
            If an owner does not answer, or answers otherwise than agreed on. The budget of a fit
            that has begun is spent.
        """
        agreement = self._agreement
        asking = _Asking(agreement, send)
        model, warnings = run_fit(agreement, no_rows(agreement), asking.exchange)
        asking.end()
        warn_of_privacy(*warnings)
        return model


class _Asking:
    """The questions of one run."""

    def __init__(self, agreement: Agreement, send: Send) -> None:
        self._agreement, self._send = agreement, send
        self._number = 0
        self._last_sum: list[np.ndarray] = []  # of the release before, in words
        keys, self._confirmations = self._gather_keys() if agreement.is_masked else (b"", [])
        self._story = Story(agreement.digest, keys)

    def exchange(self, layout: ShareLayout, part: np.ndarray) -> np.ndarray:
        """Ask all owners for their counts of a release, and add these up."""
        answers = self._ask_for_next("answer", self._story.of(layout))
        words = sum_modulo([answer.arrays[0] for answer in answers], layout.words)
        total = checked_sum(words, layout)
        self._last_sum = [words]
        self._story.add(total)
        self._number += 1
        return total

    def end(self) -> None:
        """Send all owners the last sum; check that all of them have come to the same end."""
        self._ask_for_next("end", self._story.of(None))

    def _ask_for_next(self, expected: str, story: bytes) -> list[Message]:
        confirmations = self._confirmations if self._number == 0 else []
        fields = {"release": self._number, "confirmations": confirmations}
        answers = self._ask("answer", fields, *self._last_sum, expected=expected)
        if any(answer.fields["release"] != self._number for answer in answers):
            raise FederationError("An owner has answered for another release.")
        # Digests are sent in the clear: a fit of owners who disagree ends here, not in noise.
        if any(answer.fields["digest"] != story.hex() for answer in answers):
            raise FederationError(
                "Owners disagree about the fit: its releases, its sums or the versions of its "
                "libraries."
            )
        return answers

    def _gather_keys(self) -> tuple[bytes, list[list[Any]]]:
        """Ask all owners for their keys, then ask them to confirm the keys of all."""
        answers = self._ask("keys", {})
        publics, signatures = _listed(answers, "public"), _listed(answers, "signature")
        confirmed = self._ask("confirm", {"publics": publics, "signatures": signatures})
        keys = digest(*(bytes.fromhex(public) for _, public in publics))
        return keys, _listed(confirmed, "signature")

    def _ask(
        self, kind: str, fields: dict[str, Any], *arrays: np.ndarray, expected: str = ""
    ) -> list[Message]:
        """Send one question to all owners; return their answers in the order of owners."""
        n_owners = self._agreement.n_owners
        question = pack(kind, {"agreement": self._agreement.digest.hex(), **fields}, *arrays)
        replies = self._send(dict.fromkeys(range(n_owners), question))
        if not isinstance(replies, Mapping):
            raise TypeError(
                "send must return the answers in a dictionary by the numbers of owners, got "
                f"{type(replies).__name__}."
            )
        missing = [number for number in range(n_owners) if number not in replies]
        if missing:
            names = shortened(list(map(str, missing)))
            raise FederationError(
                f"No answer from these of the {n_owners} owners: {names}. "
                "Those who come back with their state can be asked again; else the fit has ended, "
                "and its budget is spent."
            )
        answers = [unpack(replies[i], TO_COORDINATOR, n_owners) for i in range(n_owners)]
        for number, answer in enumerate(answers):
            if answer.kind != (expected or kind) or answer.fields["owner"] != number:
                raise FederationError(f"Owner {number} has answered another question.")
        return answers


def _listed(answers: list[Message], field: str) -> list[list[Any]]:
    return [[number, answer.fields[field]] for number, answer in enumerate(answers)]


class Federation:
    """A fit that owners of rows agree on: one model, and nobody shows any rows.

    Every party runs the same fit on the rows it has. Where the fit releases a noisy sum, each owner
    hands in its part with a share of the noise, and all go on with the sum of all parts. So the
    model is that of a fit to all rows together, with slightly more noise: its standard deviation is
    that of the plan times sqrt(s / H), with s owners and H honest shares.

    Parameters
    ----------
    estimator : estimator
        What is fitted, and not changed: a :class:`skdp.DPPCA`, :class:`skdp.DPTruncatedSVD`,
        :class:`skdp.DPStandardScaler`, :class:`skdp.DPCovariance`,
        :class:`skdp.DPLinearRegression`, :class:`skdp.DPLogisticRegression` or
        :class:`skdp.DPTraceRegressor`, or a :class:`skdp.DPPipeline` of these; with the unit
        ``"row"`` or ``"record"``, or a :class:`skdp.units.Interaction`, and without ledger and
        `random_state`.
    n_rows : int or None
        Number of rows of all owners together; None with ``unit="owner"``. Owners in processes of
        their own cannot check it: a wrong one spoils the model.
    n_features : int or None, default=None
        Number of features; None if `like` has it.
    owners : int
        Number of owners, s. All of them take part in the whole fit.
    unit : {"row", "owner"}, default="row"
        What is protected: one row, or all rows of an owner. In the second case each owner counts
        the same, with the mean of what its rows add, and the numbers of rows are private.
    aggregator : {"masked", "trusted", "none"}, default="masked"
        Who adds up. ``"masked"``: a server that can read the sum of all owners only. ``"trusted"``:
        a server that is trusted not to read the parts. ``"none"``: nobody is believed, and each
        part has the full noise, which is the local model.
    colluding : int, default=1
        Up to so many owners may pass all they know to each other and to the server. H is
        ``owners - colluding``, or 1 if `aggregator` is ``"none"``. 1 protects owners from each
        other; 0 protects them from outsiders only.
    seed : int, default=0
        Public seed of the random start of the algorithm. Noise never depends on it.
    sparse : bool, default=False
        Whether the rows of all owners are sparse, without `like`.
    like : object or None, default=None
        An X of any length that a fit would take. Its dtype, its shape after the first axis, the
        names of its features and whether it is sparse are agreed on, and no value is read.

    Attributes
    ----------
    plan : Plan
        All releases, known before any data are seen.
    noise_factor : float
        sqrt(s / H): how many times larger the noise of sums is than in the plan.

    Raises
    ------
    BudgetError
        If the budget is too small for so many numbers of so many owners.
    TypeError
        If `estimator` is of another class, or has callbacks; if nobody says how many features.
    ValueError
        If a parameter is not acceptable.

    See Also
    --------
    Owner : One owner, in a process of its own.
    Coordinator : Who asks them.

    Notes
    -----
    **Privacy.** Unit: one row, or all rows of one owner; adjacency as in the estimator. Mechanism:
    Gaussian noise in shares, rounded to a public lattice; added up modulo ``2 ** 32`` or
    ``2 ** 64``. What the server and up to `colluding` owners see together is mu-GDP for the rows of
    all others, whatever the server sends; with masks, computationally. Released: what the estimator
    releases. Assumed public: all parameters, thus the number of owners; which parts they are is
    not. The masks were not audited. Not covered: the number of rows of an owner with
    ``unit="row"``, sums that an owner spoils, rows of one person at several owners, and timing.

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
        n_rows: int | None,
        n_features: int | None = None,
        *,
        owners: int,
        unit: str = "row",
        aggregator: str = "masked",
        colluding: int = 1,
        seed: int = 0,
        sparse: bool = False,
        like: Any = None,
    ) -> None:
        facts = n_rows, n_features, owners, unit, aggregator, colluding, seed, sparse, like
        self._agreement = agreement = agree(estimator, *facts)
        warn_of_privacy(*agreement.warnings)

    @property
    def plan(self) -> Plan:
        """All releases, known before any data are seen."""
        return self._agreement.plan

    @property
    def noise_factor(self) -> float:
        """How many times larger the noise of sums is than in the plan."""
        return self._agreement.shares.excess

    def fit(self, parts: Sequence[Any], y: Any = None, *, ledger: Any = None) -> Any:
        """Run the fit of all parties in this process, with the very messages of many.

        Parameters
        ----------
        parts : sequence of {array-like, sparse matrix, RowBlocks}
            The rows of each owner. Columns go by position: data frames whose columns have other
            names are refused, and the model has ``feature_names_in_`` if `like` has names.
        y : sequence of array-like or None, default=None
            The responses or labels of each owner, for a model that has them.
        ledger : PrivacyLedger or None, default=None
            Charged with the whole plan before the first noise.

        Returns
        -------
        estimator
            The fitted model.

        Raises
        ------
        BudgetError
            If the ledger has too little left; nothing has been spent then.
        TypeError
            If `parts` is no sequence.
        ValueError
            If the parts are not those agreed on; nothing has been spent then.
        """
        self._check_parts(parts, y)
        identities = [Ed25519PrivateKey.generate() for _ in parts]
        peers = [identity.public_key() for identity in identities]
        with ExitStack() as stack:
            owners: list[Owner] = []
            targets = [None] * len(parts) if y is None else y
            for number, given in enumerate(zip(parts, targets, identities, strict=True)):
                # The first owner charges the fit of all, before anybody answers.
                keys = {"identity": given[-1], "peers": peers, "ledger": None if number else ledger}
                owner = self._owner_of(number, *given[:-1], **keys)
                owners.append(stack.enter_context(owner))
            return Coordinator(self).run(
                lambda messages: {i: owners[i].handle(one) for i, one in messages.items()}
            )

    def _check_parts(self, parts: Sequence[Any], y: Any) -> None:
        agreement = self._agreement
        if isinstance(parts, Mapping) or not hasattr(parts, "__len__"):
            raise TypeError(
                f"parts must be a list with the rows of each owner, got {type(parts).__name__}."
            )
        if len(parts) != agreement.n_owners:
            raise ValueError(
                f"parts must be those of {agreement.n_owners} owners, got {len(parts)}."
            )
        if y is not None and len(y) != len(parts):
            raise ValueError(f"y must be a list with the targets of {len(parts)} owners.")
        n_rows = sum(_n_rows_of(part, number) for number, part in enumerate(parts))
        if not agreement.is_unit_owner and n_rows != agreement.shares.n_units:
            raise ValueError(
                f"parts have {n_rows} rows together, but n_rows={agreement.shares.n_units} is "
                "agreed on."
            )
        # Sums go by position: data frames whose columns differ are refused.
        named = (getattr(part, "feature_names", None) or names_of(part) for part in parts)
        found = [names for names in map(as_feature_names, named) if names]
        if any(names != found[0] for names in found):
            raise ValueError(
                "parts must have the same columns in the same order, and the names of their "
                "columns differ."
            )

    def _owner_of(self, number: int, *data: Any, **options: Any) -> Owner:
        try:
            return Owner(self, number, *data, **options)
        except (TypeError, ValueError) as error:
            error.add_note(f"This is about parts[{number}].")
            raise

    def __repr__(self) -> str:
        agreement = self._agreement
        shares = agreement.shares
        n_bytes = sum(layout.n_bytes for layout in agreement.layouts)
        # Two exchanges for keys, one for each release of the longest path, and one for the end.
        n_exchanges = 2 * agreement.is_masked + agreement.plan.n_releases + 1
        return (
            f"Federation of {shares.n_owners} owners, {shares.n_honest} honest "
            f"share{'s' * (shares.n_honest != 1)}:\n"
            f"  agreement: {agreement.digest.hex()[:16]}, the same for all parties\n"
            f"  noise std of sums: {shares.excess:.4g} times that of the plan\n"
            f"  exchanges: {n_exchanges} at most\n"
            f"  an owner sends and gets {n_bytes / 1e3:,.1f} kB of numbers each\n"
            f"{agreement.plan!r}"
        )


def _n_rows_of(part: Any, number: int) -> int:
    if hasattr(part, "shape") and len(part.shape) > 0:
        return int(part.shape[0])
    if hasattr(part, "__len__"):
        return len(part)
    raise TypeError(
        f"parts[{number}] must be the rows of an owner, such as an array, got "
        f"{type(part).__name__}."
    )
