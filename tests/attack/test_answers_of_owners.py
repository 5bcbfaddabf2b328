"""All that an owner says, beside its counts: it is the same whatever rows the owner has."""

import struct

import numpy as np
import pytest
from owner_cells import LIES, N_OWN, N_OWNERS, Cell, Server, hear, split
from parties import Talk, federation_like, owners_of, parts_of

from skdp import DPPCA, DPLinearRegression, DPLogisticRegression, DPTraceRegressor
from skdp.exceptions import BudgetError, FederationError
from skdp.federated import Federation, Owner
from skdp.federated._agreement import view_of
from skdp.federated._masks import signed
from skdp.federated._messages import pack
from skdp.ledger import PrivacyLedger
from skdp.testing._recording import messages_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

OWNER = 2  # whose answers are looked at


class Charges(PrivacyLedger):
    """A ledger without a file, which keeps what it is charged with."""

    def __init__(self):
        self.charged = []

    def _charge(self, spent, what, note=None, fit=None):
        # The id of the fit is drawn at random, and tells nothing of rows.
        self.charged.append((repr(spent), what))

    def _mark_answered(self, fit):
        pass


def federation_of(cell, aggregator="trusted"):
    n_rows = N_OWN * N_OWNERS if cell.unit == "row" else None
    return Federation(
        cell(),
        n_rows,
        cell.n_features,
        owners=N_OWNERS,
        unit=cell.unit,
        aggregator=aggregator,
        sparse=cell.container == "sparse",
    )


def rows_of_owners(cell):
    """Rows that have nothing in common, and not even their number if that is private."""
    X = cell.rows()[:N_OWN]
    others = [X, np.zeros_like(X), 1e300 * np.ones_like(X), -1e8 * X[::-1], 5e-324 + 0 * X]
    return [*others, X[:1], np.tile(X, (20, 1))] if cell.unit == "owner" else others


def head_of(reply):
    """What stands before the counts of an answer, and the length of all."""
    length, _ = struct.unpack_from("<II", reply)
    return reply[8 : 8 + length], len(reply)


def asked_of(owner, story):
    """Tell an owner a story, with mistakes in it; return all that it says but its counts."""
    agreement = owner._agreement.digest.hex()

    def ask(release, *arrays):
        fields = {"agreement": agreement, "release": release, "confirmations": []}
        try:
            return owner.handle(pack("answer", fields, *arrays))
        except FederationError as error:
            return f"{type(error).__name__}: {error}"

    said = [ask(3, np.zeros(1, "<i4")), ask(0)]
    for number, (layout, told) in enumerate(zip(story.layouts, story.sums, strict=True), start=1):
        kind = signed(layout.words)
        said.append(ask(number + 1, told.astype(kind)))
        said.append(ask(number, np.zeros(layout.size + 1, kind)))
        said.append(ask(number, np.full(layout.size, np.iinfo(kind).min, kind)))
        said.append(ask(number, told.astype(kind)))
        said.append(ask(number, 1 - told.astype(kind)))
        # The same question again gets the same bytes.
        assert ask(number, told.astype(kind)) == said[-2]
    return [one if isinstance(one, str) else head_of(one) for one in said]


def all_said(cell, lie):
    """What owners with other rows say when they are told the same, and what they charge."""
    federation = federation_of(cell)
    agreement = federation._agreement
    rows = rows_of_owners(cell)
    story = hear(agreement, view_of(agreement, cell.contain(rows[0])), Server(cell, lie))
    said = []
    for X in rows:
        ledger = Charges()
        owner = Owner(federation, OWNER, cell.contain(X), ledger=ledger)
        said.append((*messages_of(lambda: asked_of(owner, story)), ledger.charged))  # noqa: B023
        assert isinstance(owner.estimator_, type(story.model))
    return said


CELLS = (
    Cell("covariance", model="pca", norms="private"),
    Cell("covariance", unit="owner"),
    Cell("power", "zero_out", unit="owner", model="pca, public center", container="sparse"),
    Cell("power", unit="owner", norms="private"),
    Cell("guided covariance", unit="owner", norms="private"),
    Cell("guided power", "zero_out", container="sparse"),
    Cell("interaction"),
)


@pytest.mark.parametrize(
    "estimator",
    [
        DPPCA(1),
        DPLinearRegression(),
        DPLogisticRegression(classes=[0, 1], row_norm=9.0),
        DPTraceRegressor(rank=1, matrix_shape=(2, 2)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_no_sum_without_noise_leaves_an_owner_with_a_ledger(estimator, ledger):
    rows = np.random.default_rng(0).normal(size=(240, 4))
    federation = federation_like(estimator, rows, epsilon=np.inf, aggregator="trusted")
    targets = (rows[:, 0] > 0).astype(int) if hasattr(estimator, "predict") else None
    owners = owners_of(federation, *map(parts_of, (rows, targets)), ledgers=[ledger] * 3)
    talk = Talk(federation, owners)
    with pytest.raises(BudgetError, match="no privacy"):
        talk.run()
    assert not talk.answers
    assert not ledger.entries()


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_all_but_the_counts_is_the_same(cell, lie):
    first, *others = all_said(cell, lie)
    said, warned, ledger = first
    # To each release there is one answer, and one more that ends the fit.
    assert len([one for one in said if isinstance(one, tuple)]) == (len(said) - 2) // 5 + 1
    assert warned == [""]
    assert len(ledger) == 1
    for other in others:
        assert other == first


@pytest.mark.parametrize("unit", ["row", "owner"])
def test_masked_messages_are_as_long_whatever_rows_there_are(unit):
    cell, lengths = Cell("covariance", unit=unit, model="pca"), []
    X = cell.rows()
    for rows in (X, 0 * X, 1e300 + 0 * X):
        parts = split(cell, rows)
        if unit == "owner" and len(lengths):
            parts[OWNER] = np.tile(parts[OWNER], (50, 1))
        lengths.append(lengths_of_messages(federation_of(cell, "masked"), parts))
    assert lengths[0] == lengths[1] == lengths[2]
    # Keys, confirmations, a mean, a second moment, the end.
    assert len(lengths[0]) == 5 * N_OWNERS


def lengths_of_messages(federation, parts):
    """Run a fit, and note how long all answers are."""
    talk = Talk(federation, owners_of(federation, parts))
    talk.run()
    return [(i, len(reply)) for replies in talk.answers for i, reply in replies.items()]
