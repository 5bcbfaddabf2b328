"""The coordinator: whom it stops at, and processes that compute with other kernels of BLAS."""

import os
import subprocess
import sys
import warnings

import numpy as np
import parties
import pytest
from scipy import sparse

import skdp
from skdp import DPPCA, DPTruncatedSVD, FederationError, PrivacyWarning
from skdp.federated import Coordinator
from skdp.federated._masks import History
from skdp.federated._messages import pack
from skdp.privacy.releases import Release
from skdp.privacy.shares import Shares
from skdp.units import Interaction

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def with_reply(change, at=3):
    """Run a fit in which one answer is replaced."""
    federation = parties.a_federation()
    owners = parties.owners_of(federation)
    numbers = iter(range(99))

    def send(questions):
        replies = {i: owners[i].handle(one) for i, one in questions.items()}
        return change(replies) if next(numbers) == at else replies

    return Coordinator(federation).run(send)


def answer(change=lambda one: one, **fields):
    """Change the arrays and fields of the answer of one owner."""

    def make(replies):
        kind, old, arrays = parties.answer_of(replies[1])
        return replies | {1: pack(kind, old | fields, *map(change, arrays))}

    return make


def test_a_coordinator_ends_with_the_model_of_the_owners():
    assert with_reply(lambda replies: replies).components_.shape == (1, 4)


@pytest.mark.covered(at_most=16)
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda replies: {i: replies[i] for i in (0, 2)}, "of the 3 owners: 1\\. "),
        (lambda replies: {}, "of the 3 owners: 0, 1, 2\\. "),
        (lambda replies: replies | {1: replies[0]}, "Owner 1 has answered another question"),
        (lambda replies: replies | {1: None}, "must be bytes"),
        (lambda replies: replies | {1: b""}, "too short"),
        (lambda replies: replies | {1: replies[1] + b"0"}, "damaged|size"),
        (answer(owner=2), "Owner 1 has answered another question"),
        (answer(owner=3), "Field 'owner'"),
    ],
)
def test_answers_that_are_refused(change, match, at):
    with pytest.raises(FederationError, match=match):
        with_reply(change, at)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (answer(digest="00" * 32), "Owners disagree about the fit"),
        (answer(release=0), "answers to earlier messages"),
        (answer(lambda one: one[1:]), "another type or size"),
        (answer(lambda one: one.astype("<u8")), "another type or size"),
        (answer(lambda one: one + np.uint32(2**30)), "beyond its public bound"),
    ],
)
def test_counts_that_are_refused(change, match):
    with pytest.raises(FederationError, match=match):
        with_reply(change)


@pytest.mark.parametrize(
    ("aggregator", "number"), [("masked", 3), ("masked", 4), ("trusted", 1), ("none", 1)]
)
def test_owners_who_were_told_two_sums_stop_the_fit(aggregator, number):
    def lied(asked, i, question):
        told = parties.fields_of(question).arrays
        return (
            question
            if (asked, i) != (number, 0)
            else parties.changed(question, told[0] + told[0].dtype.type(1))
        )

    federation = parties.a_federation(aggregator=aggregator)
    with pytest.raises(FederationError, match="Owners disagree about the fit"):
        parties.Talk(federation, parties.owners_of(federation), tamper=lied).run()


def test_an_owner_of_another_version_is_refused(monkeypatch):
    federation = parties.a_federation()
    monkeypatch.setattr(skdp, "__version__", "0.0")
    owners = parties.owners_of(federation)
    owners[1] = parties.an_owner(parties.a_federation(), 1)
    with pytest.raises(FederationError, match="another agreement"):
        parties.Talk(federation, owners).run()


def test_a_run_that_has_failed_is_started_again():
    federation = parties.a_federation()
    owners, missing = parties.owners_of(federation), [1]

    def send(questions):
        gone = missing if len(owners[0]._state.answers) == 4 else []
        return {i: owners[i].handle(one) for i, one in questions.items() if i not in gone}

    coordinator = Coordinator(federation)
    with pytest.raises(FederationError, match="of the 3 owners: 1\\. "):
        coordinator.run(send)
    missing.clear()
    model = coordinator.run(send)
    np.testing.assert_array_equal(model.components_, owners[1].estimator_.components_)


def test_what_sending_raises_arrives():
    def send(questions):
        raise ConnectionError("No way to the owners.")

    with pytest.raises(ConnectionError, match="No way"):
        Coordinator(parties.a_federation()).run(send)


# ---- kernels


@pytest.mark.parametrize("epsilon", [8.0, np.inf])
def test_the_last_bits_of_a_scale_change_no_step_and_no_story(epsilon):
    """Sensitivities follow norms of bases, which kernels round in their own ways."""
    shares = Shares(3, 2, 64)
    plan = parties.a_federation(DPPCA(1, epsilon=epsilon, row_norm=5.0, mean_norm=2.0)).plan

    def told(sensitivity):
        std = plan.cost.noise_std("gaussian", sensitivity, 0.5)
        release = Release("core", "gaussian", 0.5, sensitivity, std)
        return History(bytes(32)).before(shares.layout(release, (4, 4)))

    near = [1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 0), 1 + 1e-14, 1 - 1e-14]
    assert len({told(one) for one in near}) == 1
    # Another scale is told apart, if there is any.
    assert (told(1.01) != told(1.0)) == (epsilon < np.inf)


KERNELS = ["Haswell", "Nehalem"]
HAS_KERNEL = """
import sys
import numpy as np
from threadpoolctl import threadpool_info
np.ones((9, 9)) @ np.ones((9, 9))
sys.exit(sys.argv[1] not in [library.get("architecture") for library in threadpool_info()])
"""
OWNER = """
import warnings
from threadpoolctl import threadpool_limits
from test_coordinator import FITS, federation_of, part_of
from parties import an_owner
warnings.simplefilter("ignore")
name, number = sys.argv[1], int(sys.argv[2])
threadpool_limits(1 + number % 2)
owner = an_owner(federation_of(name), number, part_of(name, number))
"""
AFTER = "sys.stdout.buffer.write(owner.estimator_.components_.tobytes())"
BOUNDS = {"row_norm": 12.0, "epsilon": 8.0}
N_ROWS, N_FEATURES = 900, 60
FITS = {
    "covariance": DPPCA(3, mean_norm=9.0, **BOUNDS),
    "private bounds": DPPCA(3, mean_norm=9.0, epsilon=8.0),
    "power": DPPCA(3, mean_norm=9.0, solver="power", **BOUNDS),
    "power, few iterations": DPPCA(3, mean_norm=9.0, solver="power", n_iter=2, **BOUNDS),
    "guided": DPTruncatedSVD(3, **BOUNDS),
    "guided power": DPTruncatedSVD(3, solver="power", **BOUNDS),
    "interactions": DPTruncatedSVD(3, privacy_unit=Interaction(), epsilon=8.0),
    "sparse": DPTruncatedSVD(3, **BOUNDS),
}


def federation_of(name):
    sizes = {"n_rows": N_ROWS, "n_features": N_FEATURES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return parties.a_federation(FITS[name], **sizes, sparse=name == "sparse")


def part_of(name, number):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 4)) @ rng.normal(size=(4, N_FEATURES))
    X += rng.normal(size=X.shape) / 3
    if "guided" in name:
        X = abs(X)
    if name in ("interactions", "sparse"):
        X = np.where(X > 2, np.rint(X), 0.0)
    X = X[number::3]
    return sparse.csr_array(X) if name == "sparse" else X


@pytest.fixture(scope="module")
def kernels():
    for kernel in KERNELS:
        found = subprocess.run(
            [sys.executable, "-c", HAS_KERNEL, kernel],
            env=os.environ | {"OPENBLAS_CORETYPE": kernel},
            stderr=subprocess.DEVNULL,
        )
        if found.returncode:
            pytest.skip(f"OpenBLAS has no kernel {kernel} on this machine")
    return [{"OPENBLAS_CORETYPE": kernel} for kernel in KERNELS] + [{}]


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_kernels_agree(name, kernels):
    """The digests of all owners are the same to the last release, and so are the models."""
    owners = [
        parties.OwnerProcess(OWNER, name, i, after=AFTER, **one) for i, one in enumerate(kernels)
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            talk = parties.Talk(federation_of(name), owners)
            model = talk.run()
        for owner in owners:
            components = np.frombuffer(owner.end()).reshape(3, -1)
            np.testing.assert_allclose(components, model.components_, atol=1e-9)
    finally:
        for owner in owners:
            owner.kill()
