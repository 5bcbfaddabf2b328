"""The coordinator of a federated fit: it adds up what it cannot read, and runs the same fit."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.exceptions import FederationError, shortened, warn_of_privacy
from skdp.federated._agreement import Agreed, Agreement, agreement_of
from skdp.federated._fit import no_rows, run_fit
from skdp.federated._masks import digest, sum_modulo
from skdp.federated._messages import TO_COORDINATOR, Message, pack, unpack
from skdp.federated._story import Story, checked_sum
from skdp.privacy.shares import ShareLayout

#: Sends a message to each owner, by its number, and returns their answers.
Send = Callable[[dict[int, bytes]], Mapping[int, bytes]]


class Coordinator:
    """Leads a federated fit: asks all owners, adds up their counts, and gets the model.

    It has no rows. With masked sums it sees nothing but the sum of all owners, which is what the
    fit releases.

    Parameters
    ----------
    federation : Federation
        What all owners have agreed on.

    See Also
    --------
    Owner : Answers the messages.

    Notes
    -----
    **Privacy.** A coordinator has no private data. What it may do to owners is told in the user
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

    def __init__(self, federation: Agreed) -> None:
        self._agreement = agreement_of(federation)

    def run(self, send: Send) -> MatrixEstimator:
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
        self._told: list[np.ndarray] = []  # the sum of the release before
        keys, self._confirmations = self._gather_keys() if agreement.is_masked else (b"", [])
        self._story = Story(agreement.digest, keys)

    def exchange(self, layout: ShareLayout, part: np.ndarray) -> np.ndarray:
        """Ask all owners for their counts of a release, and add these up."""
        answers = self._ask_for_next("answer", self._story.of(layout))
        told = sum_modulo([answer.arrays[0] for answer in answers], layout.words)
        total = checked_sum(told, layout)
        self._told = [told]
        self._story.add(total)
        self._number += 1
        return total

    def end(self) -> None:
        """Tell all owners the last sum; check that all of them have reached the same end."""
        self._ask_for_next("end", self._story.of(None))

    def _ask_for_next(self, expected: str, told: bytes) -> list[Message]:
        confirmations = self._confirmations if self._number == 0 else []
        fields = {"release": self._number, "confirmations": confirmations}
        answers = self._ask("answer", fields, *self._told, expected=expected)
        if any(answer.fields["release"] != self._number for answer in answers):
            raise FederationError("An owner has answered for another release.")
        # In the clear, so that a fit with owners who disagree ends here, and not in noise.
        if any(answer.fields["digest"] != told.hex() for answer in answers):
            raise FederationError(
                "Owners disagree about the fit: its releases, its sums or the versions of its "
                "libraries."
            )
        return answers

    def _gather_keys(self) -> tuple[bytes, list[list[Any]]]:
        """Ask all owners for keys, then for their word that they have seen those of all."""
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
