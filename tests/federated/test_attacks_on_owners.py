"""Attacks on owners that once worked: each got noise twice, or too little noise."""

import gc
import linecache
import sys
from contextlib import nullcontext, suppress
from threading import Barrier, BrokenBarrierError, Thread

import numpy as np
import pytest
from parties import Talk, a_federation, fields_of, owners_of
from scipy.sparse import csr_array

import skdp.federated._owner
import skdp.federated._state
from skdp import DPPCA, DPTruncatedSVD
from skdp.exceptions import FederationError
from skdp.federated import Federation, Owner
from skdp.federated._masks import new_key, public_of, signed
from skdp.federated._messages import pack
from skdp.ledger import _database

N_OWNERS = 3


def new_federation(**changes):
    svd = DPTruncatedSVD(2, epsilon=8.0, row_norm=5.0, solver="covariance")
    facts = {"owners": N_OWNERS, "aggregator": "trusted", **changes}
    return Federation(svd, n_rows=600, n_features=4, **facts)


def rows():
    return np.random.default_rng(0).normal(size=(200, 4))


def question(owner, number, shift=0):
    """Ask for a release, with a sum of zeros for the one before, or of other numbers."""
    fields = {"agreement": owner._agreement.digest.hex(), "release": number, "confirmations": []}
    if number == 0:
        return pack("answer", fields)
    layout = owner._waiting.layout
    return pack("answer", fields, np.full(layout.size, shift, signed(layout.words)))


def interrupt_at(line):
    """Interrupt the main thread before a line of the owner or its file, as by control and C."""
    files = {
        module.__file__ for module in (skdp.federated._owner, skdp.federated._state, _database)
    }
    seen = 0

    def trace(frame, event, arg):
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        # Python looks for signals at no try and no end of a with statement: that is not where tests
        # interrupt.
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not text.startswith(("with ", "try:")):
            seen += 1
            if seen == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)


def answers_around_an_interrupt(path, line):
    """Ask in all ways, before and after the owner has come back; tell what left for a release."""
    owner, left = Owner(new_federation(), 0, rows(), state=path), set()
    owner.handle(question(owner, 0))
    first, second = question(owner, 1), question(owner, 1, shift=1)
    was_interrupted = False
    try:
        interrupt_at(line)
        left.add(owner.handle(first))
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        sys.settrace(None)
    for message in (first, second):
        add_answer(left, owner, message)
    del owner
    owner = Owner(new_federation(), 0, rows(), state=path)
    for message in (second, first):
        add_answer(left, owner, message)
    return left, was_interrupted


def add_answer(left, owner, message):
    with suppress(FederationError):
        left.add(owner.handle(message))


# Who is interrupted while it opens a file cannot close it.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.slow
def test_an_interrupt_at_any_line_lets_no_noise_be_drawn_twice(tmp_path):
    line, was_interrupted = 0, True
    while was_interrupted:
        line += 1
        left, was_interrupted = answers_around_an_interrupt(tmp_path / str(line), line)
        assert len(left) <= 1, line
        assert not _database._LOCK._is_owned(), line
    assert line > 20
    gc.collect()


@pytest.mark.parametrize("n_before", [0, 1])
def test_two_owners_with_one_state_do_not_both_answer(tmp_path, monkeypatch, n_before):
    # A server may ask two processes of one owner at the same moment.
    path, left = tmp_path / "state", []
    owners = [Owner(new_federation(), 0, rows(), state=path)]
    if n_before:
        owners[0].handle(question(owners[0], 0))
    owners.append(Owner(new_federation(), 0, rows(), state=path))
    meet_before_they_save(monkeypatch)
    messages = [question(owner, n_before, shift=i) for i, owner in enumerate(owners)]

    def ask(owner, message):
        with suppress(FederationError):
            left.append(owner.handle(message))

    pairs = zip(owners, messages, strict=True)
    threads = [Thread(target=ask, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Both may draw the same noise by chance: then one answer is on disk, and nothing more is told.
    assert len(set(left)) == 1


def meet_before_they_save(monkeypatch):
    """Let two owners write one file at the same moment; in two processes they share no lock."""
    barrier, connected = Barrier(2), skdp.federated._state.connected

    def meet(*arguments):
        with suppress(BrokenBarrierError):
            barrier.wait(5)
        return connected(*arguments)

    monkeypatch.setattr(skdp.federated._state, "connected", meet)
    monkeypatch.setattr(_database, "_LOCK", nullcontext())


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.uint8])
def test_small_integers_of_numpy_plan_the_same_fit(kind):
    plain, given = new_federation(owners=100), new_federation(owners=kind(100))
    for release in plain.plan.releases:
        layouts = [one._agreement.shares.planned(one.plan.cost, release) for one in (plain, given)]
        assert layouts[0] == layouts[1]
        assert layouts[0].largest == layouts[1].largest > 100_000
    assert plain._agreement.digest == given._agreement.digest


@pytest.mark.parametrize("solver", ["covariance", "power"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_changed_while_an_owner_waits_are_clipped(solver, is_sparse):
    svd = DPTruncatedSVD(2, epsilon=8.0, row_norm=5.0, solver=solver)
    federation = Federation(
        svd, n_rows=600, n_features=4, owners=N_OWNERS, aggregator="trusted", sparse=is_sparse
    )
    X = csr_array(rows()) if is_sparse else rows()
    owner, parts = Owner(federation, 0, X), []
    owner.handle(question(owner, 0))
    (X.data if is_sparse else X)[:4] *= 1e6
    for number in range(1, federation.plan.n_releases + 1):
        owner.handle(question(owner, number))
        if owner._waiting is None:
            break
        layout = owner._waiting.layout
        # No 200 rows that are clipped exceed the bound of all 600.
        parts.append(np.linalg.norm(owner._waiting.part) / layout.step / layout.limit)
    assert len(parts) > 1 or solver == "covariance"
    assert max(parts) < 1


# ---- more owners than neighbors


def sixty_owners():
    X = np.random.default_rng(1).normal(size=(120, 4)) * [2, 1, 0.5, 0.1]
    estimator = DPPCA(1, epsilon=np.inf, row_norm=5.0, mean_norm=2.0)
    federation = a_federation(estimator, n_rows=120, owners=60)
    return X, federation, owners_of(federation, [X[i::60] for i in range(60)])


def refused_by(owners, messages):
    """The owners who refuse their message."""
    refused = set()
    for i, owner in enumerate(owners):
        try:
            owner.handle(messages[i])
        except FederationError:
            refused.add(i)
    return refused


@pytest.mark.slow
def test_a_fit_on_a_ring_is_the_fit_in_one_place():
    X, federation, owners = sixty_owners()
    model = Talk(federation, owners).run()
    assert {len(owner._handshake._secrets or range(50)) for owner in owners} == {50}
    central = DPPCA(1, epsilon=np.inf, row_norm=5.0, mean_norm=2.0).fit(X)
    np.testing.assert_allclose(model.mean_, central.mean_, atol=1e-12)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(central.components_), atol=1e-9)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("victim", [0, 17])
def test_all_neighbors_refuse_a_key_or_a_confirmation_that_is_not_of_its_owner(victim):
    """Honest owners stay connected: each liar is found out by somebody who shares its masks."""
    _, federation, owners = sixty_owners()
    talk = Talk(federation, owners, stop_at=2)
    talk.run()
    fields = fields_of(talk.next[0], n_owners=60).fields
    entries = [list(one) for one in fields["confirmations"]]
    entries[victim][1] = entries[victim - 1][1]
    kind, old, _ = fields_of(talk.next[0], n_owners=60)
    lie = pack(kind, old | {"confirmations": entries})
    around = {*owners[victim]._handshake._secrets, victim}
    assert len(around) == 51
    assert refused_by(owners, [lie] * 60) == around
    # And a key that is none of its owner's.
    _, federation, owners = sixty_owners()
    talk = Talk(federation, owners, stop_at=1)
    talk.run()
    kind, old, _ = fields_of(talk.next[0], n_owners=60)
    publics = [list(one) for one in old["publics"]]
    publics[victim][1] = public_of(new_key()).hex()
    refused = refused_by(owners, [pack(kind, old | {"publics": publics})] * 60)
    assert victim in refused
    assert len(refused) == 51
