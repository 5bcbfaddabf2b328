"""Mistakes of those who are new to federations: each is told what it is, and what would do."""

import pickle

import numpy as np
import pandas as pd
import pytest
from parties import IDENTITIES, PARTS, PEERS, Talk, a_federation, an_owner, owners_of

from skdp import DPPCA, RowBlocks
from skdp.exceptions import FederationError
from skdp.federated import Coordinator, Federation, Owner

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

PCA = DPPCA(1, epsilon=8.0, row_norm=5.0, mean_norm=2.0)


# ---- the agreement


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_numbers_of_numpy_are_those_of_python(kind):
    one = Federation(PCA, 60, 4, owners=3, colluding=1, seed=2)
    other = Federation(PCA, kind(60), kind(4), owners=kind(3), colluding=kind(1), seed=kind(2))
    assert repr(other) == repr(one)  # with the agreement
    assert other.noise_factor == one.noise_factor
    model = other.fit(PARTS)
    assert type(model.n_features_in_) is int
    assert an_owner(other, kind(1)).number == 1
    assert hasattr(Talk(one, owners_of(other)).run(), "components_")


@pytest.mark.parametrize("number", [True, np.bool_(True), 1.0, "1", None, 3, -1, np.int64(3)])
def test_what_is_no_number_of_an_owner(number):
    with pytest.raises(ValueError, match=r"number must be an int in \[0, 3\), got "):
        Owner(a_federation(), number, PARTS[0], identity=IDENTITIES[0], peers=PEERS[:3])


@pytest.mark.parametrize("sparse", [None, "no", 1, np.ones(3)])
def test_sparse_is_a_bool(sparse):
    with pytest.raises(TypeError, match="The 'sparse' parameter of Federation"):
        a_federation(sparse=sparse)
    assert repr(a_federation(sparse=np.bool_(False))) == repr(a_federation())


def test_the_agreement_is_printed_to_be_compared():
    """Parties who disagree see it, wherever each has made its own."""
    federation = a_federation()
    shown = agreement_in(repr(federation))
    assert shown == agreement_in(repr(a_federation()))
    assert shown == agreement_in(repr(pickle.loads(pickle.dumps(federation))))
    other = a_federation(seed=1)
    assert agreement_in(repr(other)) != shown
    with pytest.raises(FederationError, match="print it to compare") as caught:
        Talk(other, owners_of(federation)).run()
    assert shown in str(caught.value)
    assert agreement_in(repr(other)) in str(caught.value)


def agreement_in(text):
    (line,) = [line for line in text.splitlines() if "agreement:" in line]
    return line.split()[1].strip(",")


def test_one_share_is_one():
    assert "1 honest share:" in repr(a_federation(colluding=2))
    assert "2 honest shares:" in repr(a_federation())


@pytest.mark.parametrize("given", [PCA, None, "federation"])
def test_what_is_no_federation(given):
    text = f"federation must be a Federation, got {type(given).__name__}"
    with pytest.raises(TypeError, match=text):
        Coordinator(given)
    with pytest.raises(TypeError, match=text):
        Owner(given, 0, PARTS[0])


# ---- parts


@pytest.mark.parametrize("kind", [lambda parts: dict(enumerate(parts)), iter, np.vstack])
def test_parts_are_a_list(kind):
    with pytest.raises(TypeError, match="parts must be a list with the rows of each"):
        a_federation().fit(kind(PARTS))


@pytest.mark.parametrize("part", [None, 3, iter([])])
def test_a_part_is_rows(part):
    with pytest.raises((TypeError, ValueError)) as caught:
        a_federation().fit([PARTS[0], part, PARTS[2]])
    assert caught.value.__notes__ == ["This is about parts[1]."]


def test_an_error_tells_whose_rows_it_is_about():
    bad = [PARTS[0], PARTS[1].copy(), PARTS[2]]
    bad[1][3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        a_federation().fit(bad)
    assert caught.value.__notes__ == ["This is about parts[1]."]


def blocks_of(frame):
    return RowBlocks(lambda: [frame], frame.shape)


def test_columns_in_another_order_are_refused():
    """Sums go by position: the model of such parts would be one of mixed columns."""
    names = ["age", "weight", "pulse", "stay"]
    frames = [pd.DataFrame(part, columns=names) for part in PARTS]
    model = a_federation().fit(frames)
    assert not hasattr(model, "feature_names_in_")
    for nameless in (PARTS[2], pd.DataFrame(PARTS[2])):
        assert a_federation().fit([*frames[:2], nameless]).n_features_in_ == 4
    with pytest.raises(ValueError, match="same columns in the same order"):
        a_federation().fit([*frames[:2], frames[2][names[::-1]]])
    in_blocks = blocks_of(frames[2][names[::-1]])
    with pytest.raises(ValueError, match="same columns in the same order"):
        a_federation().fit([*frames[:2], in_blocks])
    assert not hasattr(a_federation().fit([*frames[:2], blocks_of(frames[2])]), "feature_names_in_")


# ---- owners


def test_a_model_that_is_not_there_yet():
    owner = an_owner(a_federation(), 0)
    assert not hasattr(owner, "estimator_")


@pytest.mark.parametrize("given", ["a.skdp", [None, None, None], 1.0])
def test_what_is_no_ledger_is_refused_at_once(given):
    """And not after keys are made, when the others wait for the first answer."""
    with pytest.raises(ValueError, match=r"ledger must be a PrivacyLedger or None, and no path"):
        an_owner(a_federation(), 0, ledger=given)
    with pytest.raises(ValueError, match=r"ledger must be a PrivacyLedger or None, and no path"):
        a_federation().fit(PARTS, ledger=given)


def test_peers_in_another_order_are_named():
    federation = a_federation()
    owners = owners_of(federation)
    owners[2] = an_owner(federation, 2, peers=[PEERS[1], PEERS[0], PEERS[2]])
    with pytest.raises(FederationError, match=r"signature of owner 0 is invalid .* peers\[0\]"):
        Talk(federation, owners).run()


def test_a_state_without_a_folder_is_refused_at_once(tmp_path):
    """And not when the first answer is to leave."""
    with pytest.raises(FederationError, match=r"state='.*no.a' must be in a folder that exists"):
        an_owner(a_federation(), 0, state=tmp_path / "no" / "a")
    assert an_owner(a_federation(), 0, state=tmp_path / "a").number == 0
