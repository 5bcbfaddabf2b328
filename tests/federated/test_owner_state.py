"""An owner that dies comes back: same question, same bytes, and nothing is drawn twice."""

import json
import os
import sqlite3
import stat
import threading
from contextlib import closing, contextmanager

import numpy as np
import pytest
from parties import (
    IDENTITIES,
    PARTS,
    PEERS,
    Talk,
    a_federation,
    an_owner,
    changed,
    fields_of,
    the_threads,
)

from skdp import DPPCA, BudgetError, FederationError
from skdp.data.sources import as_source, digest
from skdp.federated import Owner
from skdp.federated._messages import pack
from skdp.federated._owner import RunningFit
from skdp.federated._state import OwnerState, load_state
from skdp.ledger import PrivacyLedger

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_EXCHANGES = 5  # of a fit of two releases


@pytest.fixture
def paths(tmp_path):
    return [tmp_path / f"owner{i}" for i in range(3)]


def owners_with_files(federation, paths, ledgers=(None,) * 3):
    return [an_owner(federation, i, state=paths[i], ledger=ledgers[i]) for i in range(3)]


def stopped_at(n_exchanges, paths, ledger=None, **options):
    """Owners with files who have answered so many exchanges; the first one has a ledger."""
    federation = a_federation(**options)
    owners = owners_with_files(federation, paths, (ledger, None, None))
    talk = Talk(federation, owners, stop_at=n_exchanges)
    talk.run()
    return talk


def assert_comes_back(talk, path):
    """The first owner goes on from its file, to the end of the fit."""
    back = an_owner(talk.federation, 0, state=path)
    assert Talk(talk.federation, [back, *talk.owners[1:]]).run() is not None


def draws_of(monkeypatch):
    """Count how often noise is drawn."""
    drawn = []

    def key(self, *facts):
        drawn.append(len(drawn))
        return os.urandom(16)

    monkeypatch.setattr("skdp.federated._owner.NoiseSource.key", key)
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", ["masked", "trusted", "none"])
def test_owners_that_die_between_all_messages(aggregator, paths, monkeypatch, tmp_path):
    """Every owner is a new object at every question, and once more for its repetition."""
    drawn, federation = draws_of(monkeypatch), a_federation(aggregator=aggregator)
    ledgers = [
        PrivacyLedger.create(tmp_path / f"{i}.skdp", dataset="a", epsilon=20.0, delta=1e-5)
        for i in range(3)
    ]
    fresh = lambda i: an_owner(federation, i, state=paths[i], ledger=ledgers[i])  # noqa: E731

    class Dying:
        def __init__(self, i):
            self.i = i

        def handle(self, question):
            reply = fresh(self.i).handle(question)
            assert fresh(self.i).handle(question) == reply
            return reply

    talk = Talk(federation, [Dying(i) for i in range(3)])
    model = talk.run()
    # Whoever leads the fit may come back, too.
    again = Talk(federation, talk.owners)
    again.run()
    assert again.answers == talk.answers
    assert len(drawn) == 2 * 3
    assert [len(ledger.entries()) for ledger in ledgers] == [1, 1, 1]
    for i in range(3):
        np.testing.assert_array_equal(fresh(i).estimator_.components_, model.components_)


# ---- the file


def kept_in(path):
    with closing(sqlite3.connect(path)) as database:
        ((text,),) = database.execute("SELECT state FROM skdp_owner_1").fetchall()
    return json.loads(text)


def test_the_file_is_secret_and_whole(paths):
    for n_exchanges in range(1, N_EXCHANGES + 1):
        here = [path.with_suffix(f".{n_exchanges}") for path in paths]
        stopped_at(n_exchanges, here)
        if os.name == "posix":
            assert stat.S_IMODE(here[0].stat().st_mode) == 0o600
        # Nothing beside it, such as a file that was not finished.
        assert len(list(here[0].parent.iterdir())) == 3 * n_exchanges
        state = kept_in(here[0])
        assert len(state["answers"]) == n_exchanges
        assert state["is_charged"] == (n_exchanges > 2)
        # Once the fit is over, nobody can take masks off with this file.
        assert bool(state["secret_key"]) == (n_exchanges < N_EXCHANGES)
        assert state["has_ended"] == (n_exchanges == N_EXCHANGES)


def test_files_of_two_fits_do_not_tell_that_their_rows_are_the_same(paths):
    here = [[path.with_suffix(f".{fit}") for path in paths] for fit in range(2)]
    for files in here:
        owners_with_files(a_federation(), files)
    for one, other in zip(*here, strict=True):
        assert kept_in(one)["rows"] != kept_in(other)["rows"]
        assert digest(as_source(PARTS[0])).hex() not in one.read_text(errors="ignore")


def test_keys_are_forgotten_at_the_end(paths):
    talk = stopped_at(4, paths)
    pair = talk.owners[0]._state.secret_key
    assert pair.encode() in paths[0].read_bytes()
    assert talk.owners[0]._handshake._secrets
    Talk(talk.federation, talk.owners).run()
    assert pair.encode() not in paths[0].read_bytes()
    assert talk.owners[0]._handshake._secrets == {}
    back = an_owner(talk.federation, 0, state=paths[0])
    assert back._handshake._secrets == {}
    np.testing.assert_array_equal(
        back.estimator_.components_, talk.owners[1].estimator_.components_
    )


@contextmanager
def a_full_disk(monkeypatch):
    def connect(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        yield


@pytest.mark.parametrize("n_exchanges", range(N_EXCHANGES))
def test_nothing_leaves_before_it_is_saved(n_exchanges, paths, monkeypatch):
    """If a state cannot be written, the noise that was drawn is that of the answer, later."""
    drawn, talk = draws_of(monkeypatch), stopped_at(n_exchanges, paths)
    first, question = talk.owners[0], talk.next[0]
    before, n_drawn = paths[0].read_bytes(), len(drawn)
    with a_full_disk(monkeypatch):
        for _ in range(2):
            with pytest.raises(OSError, match="disk is full"):
                first.handle(question)
        # Nor to an older question: what is not on disk must not be told by what follows.
        if n_exchanges:
            with pytest.raises(OSError, match="disk is full"):
                first.handle(talk.questions[0][0])
    assert paths[0].read_bytes() == before
    assert all(path in paths for path in paths[0].parent.iterdir())
    reply = first.handle(question)
    assert len(drawn) - n_drawn == (n_exchanges in (2, 3))
    assert an_owner(talk.federation, 0, state=paths[0]).handle(question) == reply


def test_two_owners_with_one_file_do_not_answer_both(paths, monkeypatch):
    drawn, talk = draws_of(monkeypatch), stopped_at(3, paths)
    twin = an_owner(talk.federation, 0, state=paths[0])
    reply = talk.owners[0].handle(talk.next[0])
    for _ in range(2):
        with pytest.raises(FederationError, match="written or removed by somebody else"):
            twin.handle(talk.next[0])
    assert an_owner(talk.federation, 0, state=paths[0]).handle(talk.next[0]) == reply
    assert len(drawn) == 3 + 2  # one was drawn by the twin, and did not leave


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize(
    "other",
    [
        {"X": PARTS[0] + 1e-12},
        {"X": PARTS[0][:19]},
        {"X": PARTS[1]},
        {"federation": a_federation(seed=1)},
        {"federation": a_federation(aggregator="trusted")},
        {"federation": a_federation(DPPCA(1, epsilon=4.0, row_norm=5.0, mean_norm=2.0))},
        {"number": 1},
    ],
)
@pytest.mark.parametrize("n_exchanges", [1, 3, 5])
def test_states_of_others_are_refused(other, n_exchanges, paths):
    stopped_at(n_exchanges, paths)
    before = paths[0].read_bytes()
    options = {"federation": a_federation(), "number": 0, "X": PARTS[0]} | other
    with pytest.raises(FederationError, match=r"state=.* belongs to another federation"):
        an_owner(**options, state=paths[0])
    assert paths[0].read_bytes() == before


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '{"agreement": 1}', "\x00\x00", "a,b\n1,2\n" * 500]
)
def test_files_that_are_no_states_are_refused(text, paths):
    paths[0].write_text(text)
    with pytest.raises(FederationError, match=r"state='.*owner0' cannot be read"):
        an_owner(a_federation(), 0, state=paths[0])
    assert paths[0].read_text() == text


def test_databases_of_others_are_no_states(paths):
    PrivacyLedger.create(paths[0], dataset="a", epsilon=20.0, delta=1e-5)
    for statements in (
        [],  # a ledger
        ["CREATE TABLE skdp_owner_1 (state TEXT)"],
        ["INSERT INTO skdp_owner_1 VALUES ('{}')"],
        ["UPDATE skdp_owner_1 SET state = x'00'"],
        ["UPDATE skdp_owner_1 SET state = 'no JSON'"],
    ):
        with closing(sqlite3.connect(paths[0])) as database, database:
            for statement in statements:
                database.execute(statement)
        before = paths[0].read_bytes()
        with pytest.raises(FederationError, match="cannot be read"):
            an_owner(a_federation(), 0, state=paths[0])
        assert paths[0].read_bytes() == before


def test_an_empty_file_is_that_of_an_owner_who_died_at_once(paths):
    """Nothing has left that is not on disk, so that nothing was told, charged or drawn."""
    for path in paths:
        path.touch(0o644)
    stopped_at(None, paths)
    for path in paths:
        assert kept_in(path)["has_ended"]
        if os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="links need no right")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_leads_to_one_state(is_there, paths, tmp_path):
    """Not replaced by a file of its own: then there would be two states, of one fit."""
    federation, link = a_federation(), tmp_path / "links" / "link"
    link.parent.mkdir()
    link.symlink_to(paths[0])
    if is_there:
        an_owner(federation, 0, state=paths[0])
    talk = Talk(federation, owners_with_files(federation, [link, *paths[1:]]), stop_at=3)
    talk.run()
    assert link.readlink() == paths[0]
    twin = an_owner(federation, 0, state=paths[0])
    reply = twin.handle(talk.next[0])
    with pytest.raises(FederationError, match="written or removed by somebody else"):
        talk.owners[0].handle(talk.next[0])
    back = an_owner(federation, 0, state=link)
    # It goes on with its file, wherever the link leads then.
    link.unlink()
    assert back.handle(talk.next[0]) == reply
    Talk(federation, [back, *talk.owners[1:]]).run()
    assert kept_in(paths[0])["has_ended"]
    assert list(link.parent.iterdir()) == []


def test_a_file_that_is_removed_is_not_made_anew(paths):
    talk = stopped_at(3, paths)
    paths[0].unlink()
    with pytest.raises(FederationError, match="written or removed by somebody else"):
        talk.owners[0].handle(talk.next[0])
    assert not paths[0].exists()


def a_key_that_is_left(folder, size):
    """Whether a key is in the file of an owner that has forgotten it, among answers of a size."""
    path, key = folder / str(size), "5ec2e7" * 10
    state = load_state(path, "agreement", 0, b"rows")
    state.secret_key, state.answers = key, {"first": "a" * size}
    state.save(path)
    assert key.encode() in path.read_bytes()
    state.secret_key, state.answers["last"] = "", "b" * 400
    state.save(path)
    assert kept_in(path)["answers"]["last"] == "b" * 400
    return key.encode() in path.read_bytes()


def test_a_key_is_overwritten_wherever_it_was(tmp_path, monkeypatch):
    sizes = range(3000, 8000, 250)
    assert not any(a_key_that_is_left(tmp_path, size) for size in sizes)
    monkeypatch.setattr("skdp.ledger._database._SETTINGS", ("secure_delete = OFF",))
    other = tmp_path / "other"
    other.mkdir()
    assert any(a_key_that_is_left(other, size) for size in sizes)


def test_who_is_interrupted_after_it_has_saved_goes_on(paths, monkeypatch):
    talk = stopped_at(3, paths)
    with monkeypatch.context() as patch:
        # The first check is that of the file that was opened.
        checks = iter([lambda *_: None, raises_an_interrupt])
        patch.setattr("skdp.ledger._database.check_place", lambda *args: next(checks)(*args))
        with pytest.raises(KeyboardInterrupt):
            talk.owners[0].handle(talk.next[0])
    # On disk since then.
    assert len(kept_in(paths[0])["answers"]) == 4
    assert Talk(talk.federation, talk.owners).run() is not None


def test_a_folder_is_no_state(tmp_path):
    with pytest.raises(FederationError, match="cannot be read"):
        an_owner(a_federation(), 0, state=tmp_path)


# ---- the ledger


def dies_before_it_saves(owner, question):
    """Let an owner be charged, and die before that is on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnerState, "save", raises_an_interrupt)
        with pytest.raises(KeyboardInterrupt):
            owner.handle(question)


@pytest.fixture
def ledger(tmp_path):
    """One that has room for a single fit."""
    return PrivacyLedger.create(tmp_path / "a.skdp", dataset="a", epsilon=8.01, delta=1e-6)


@pytest.mark.parametrize("aggregator", ["masked", "trusted"])
def test_who_dies_after_the_charge_comes_back_and_is_charged_once(aggregator, paths, ledger):
    talk = stopped_at(2 * (aggregator == "masked"), paths, ledger, aggregator=aggregator)
    federation, owners = talk.federation, talk.owners
    for _ in range(2):
        dies_before_it_saves(owners[0], talk.next[0])
        assert not kept_in(paths[0])["is_charged"]
        assert len(ledger.entries()) == 1
        owners[0] = an_owner(federation, 0, state=paths[0], ledger=ledger)
    assert Talk(federation, owners).run() is not None
    assert len(ledger.entries()) == 1
    # A second fit of the same agreement is another one.
    new = an_owner(federation, 0, state=paths[0].with_suffix(".new"), ledger=ledger)
    again = Talk(federation, [new, *(an_owner(federation, i) for i in (1, 2))])
    with pytest.raises(BudgetError):
        again.run()


def test_who_is_interrupted_after_the_charge_is_charged_once(paths, ledger, monkeypatch):
    # Even if it repeats an answer without counts, such as its keys.
    talk = stopped_at(2, paths, ledger)
    federation, owners = talk.federation, talk.owners
    with monkeypatch.context() as patch:
        patch.setattr("skdp.federated._owner.counts_of", raises_an_interrupt)
        with pytest.raises(KeyboardInterrupt):
            owners[0].handle(talk.next[0])
    owners[0].handle(pack("keys", {"agreement": federation._agreement.digest.hex()}))
    owners[0] = an_owner(federation, 0, state=paths[0], ledger=ledger)
    assert Talk(federation, owners).run() is not None
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("aggregator", ["trusted", "masked"])
def test_a_state_of_before_the_first_answer_is_charged_again(aggregator, paths, ledger):
    talk = stopped_at(0, paths, ledger, aggregator=aggregator)
    before = [path.read_bytes() for path in paths]
    assert Talk(talk.federation, talk.owners).run() is not None
    for path, content in zip(paths, before, strict=True):
        path.write_bytes(content)
    with pytest.raises(BudgetError):
        stopped_at(None, paths, ledger, aggregator=aggregator)
    assert len(ledger.entries()) == 1


def test_an_error_shows_nothing_of_a_state(paths):
    federation = a_federation(aggregator="trusted")
    an_owner(federation, 0, state=paths[0]).close()
    fit = kept_in(paths[0])["fit"].encode()
    content = paths[0].read_bytes()
    assert fit in content
    paths[0].write_bytes(content.replace(fit, fit[:-1] + b"\xff"))
    with pytest.raises(FederationError, match="cannot be read") as refused:
        an_owner(federation, 0, state=paths[0])
    assert "agreement" not in str(refused.value)
    assert fit[:8].decode() not in str(refused.value)


def test_the_id_of_a_fit_is_on_disk_before_it_is_charged(paths, ledger, monkeypatch):
    charge = PrivacyLedger._charge

    def looks(self, spent, what, fit):
        assert kept_in(paths[0])["fit"] == fit
        assert len(fit) == 64
        charge(self, spent, what, fit=fit)

    monkeypatch.setattr(PrivacyLedger, "_charge", looks)
    stopped_at(None, paths, ledger, aggregator="trusted")
    assert len(ledger.entries()) == 1
    assert len({kept_in(path)["fit"] for path in paths}) == 3


# ---- threads


def test_an_interrupted_owner_goes_on_from_its_file_only(paths, monkeypatch):
    talk = stopped_at(3, paths)
    go_on = RunningFit.resume

    def interrupted(self, total):
        go_on(self, total)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunningFit, "resume", interrupted)
        with pytest.raises(KeyboardInterrupt):
            talk.owners[0].handle(talk.next[0])
    with pytest.raises(FederationError, match="closed or interrupted"):
        talk.owners[0].handle(talk.next[0])
    assert_comes_back(talk, paths[0])


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("aggregator", ["masked", "trusted"])
@pytest.mark.parametrize("n_exchanges", [0, 1, 2, 3])
def test_a_closed_owner_saves_nothing_whatever_it_is_asked(aggregator, n_exchanges, paths):
    """Not even its end: who comes back with the state goes on."""
    n_exchanges = min(n_exchanges, 1) if aggregator == "trusted" else n_exchanges
    talk = stopped_at(n_exchanges, paths, aggregator=aggregator)
    closed = talk.owners[0]
    closed.close()
    before = paths[0].read_bytes()
    for question in (talk.next[0], changed(talk.next[0])):
        with pytest.raises(FederationError, match="closed or interrupted"):
            closed.handle(question)
    for asked, answers in zip(talk.questions, talk.answers, strict=True):
        assert closed.handle(asked[0]) == answers[0]
    assert paths[0].read_bytes() == before
    assert_comes_back(talk, paths[0])


@pytest.mark.parametrize("end", [Owner.close, "interrupt"])
def test_an_answer_that_was_not_saved_is_not_saved_after_the_end(end, paths, monkeypatch):
    talk = stopped_at(2, paths)
    first, before = talk.owners[0], paths[0].read_bytes()
    with a_full_disk(monkeypatch), pytest.raises(OSError, match="disk is full"):
        first.handle(talk.next[0])
    if end == "interrupt":
        monkeypatch.setattr(Owner, "_reply_to", raises_an_interrupt)
        with pytest.raises(KeyboardInterrupt):
            first.handle(changed(talk.next[0], np.zeros(4, "<i4"), release=1, confirmations=[]))
        monkeypatch.undo()
    else:
        end(first)
    for question in (talk.next[0], talk.questions[0][0]):
        with pytest.raises(FederationError, match="closed or interrupted"):
            first.handle(question)
    assert paths[0].read_bytes() == before
    assert_comes_back(talk, paths[0])


def raises_an_interrupt(*_):
    raise KeyboardInterrupt


def test_a_question_that_comes_twice_at_once_draws_once(monkeypatch):
    federation, drawn, replies = a_federation(aggregator="trusted"), draws_of(monkeypatch), []
    talk = Talk(federation, [an_owner(federation, 0)], stop_at=0)
    talk.run()
    ask = lambda: replies.append(talk.owners[0].handle(talk.next[0]))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 8
    assert len(set(replies)) == 1
    assert len(drawn) == 1


def test_an_owner_may_be_closed_while_it_computes(monkeypatch):
    """Closing waits for the message that is being answered."""
    before, started, may_go_on = the_threads(), threading.Event(), threading.Event()
    counted = Owner._counted

    def slow(self, *args):
        started.set()
        may_go_on.wait(10)
        return counted(self, *args)

    monkeypatch.setattr(Owner, "_counted", slow)
    federation = a_federation(aggregator="trusted")
    owner = an_owner(federation, 0)
    talk = Talk(federation, [owner], stop_at=0)
    talk.run()
    replies = []
    asking = threading.Thread(target=lambda: replies.append(owner.handle(talk.next[0])))
    asking.start()
    assert started.wait(10)
    closing = threading.Thread(target=owner.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    may_go_on.set()
    asking.join(10)
    closing.join(10)
    assert len(replies) == 1
    assert the_threads() <= before
    with pytest.raises(FederationError, match="closed or interrupted"):
        owner.handle(changed(talk.next[0], np.zeros(4, "<i4"), release=1))
    assert owner.handle(talk.next[0]) == replies[0]


def test_a_fit_may_be_stopped_by_its_own_thread():
    """The garbage collector ends owners in whatever thread it runs."""
    held = []

    def fit(exchange):
        held[0].stop()
        return exchange("first", None)

    released = threading.Event()
    held.append(RunningFit(lambda exchange: released.wait(10) and fit(exchange)))
    released.set()
    held[0].next()
    held[0]._thread.join(10)
    assert not held[0]._thread.is_alive()


# ---- a process that is killed


def test_identities_are_those_of_the_state(paths):
    """Another identity under one name would sign for keys that are not its own."""
    talk = stopped_at(1, paths)
    peers = [IDENTITIES[9].public_key(), *PEERS[1:3]]
    other = an_owner(talk.federation, 0, state=paths[0], identity=IDENTITIES[9], peers=peers)
    with pytest.raises(FederationError, match="signature of owner"):
        other.handle(talk.next[0])
    assert fields_of(talk.next[0]).kind == "confirm"
