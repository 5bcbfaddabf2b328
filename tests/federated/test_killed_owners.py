"""An owner that is killed at any change of its files comes back, is charged once, and has no key.

A forked process is killed right before SQLite changes a file: what others find then is what it has
left to the operating system.
"""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from itertools import count

import numpy as np
import pytest
from kills import is_killed_at, needs_system
from parties import Talk, a_federation, an_owner, owners_of

from skdp.ledger import PrivacyLedger

pytestmark = [
    # Small data: most of what is found is noise.
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    # Of forks beside threads; the fork makes all it needs anew.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

KEY = b"a secret key of 32 bytes, it is!"
LAST = 4  # of five exchanges
WIDE = list(np.random.default_rng(0).normal(size=(3, 20, 40)))

# ---- the first of three owners, in a folder with its state and its ledger


def federation():
    """One whose state fills several pages of a file."""
    return a_federation(n_features=40)


def first_owner(folder):
    ledger = PrivacyLedger(folder / "ledger")
    return an_owner(federation(), 0, WIDE[0], state=folder / "state", ledger=ledger)


def ask(folder, question):
    with first_owner(folder) as owner:
        return owner.handle(question)


def is_killed(folder, question, number):
    """Ask an owner in a process that is killed before a change of a file, if it gets so far."""
    return is_killed_at(number, lambda: ask(folder, question))


def killed_at_each(folder, question, first=0, step=1):
    """Yield copies of a folder, in each of which an owner was killed some changes later."""
    for number in count(first, step):
        here = folder.with_name(f"{folder.name}-{number}")
        subprocess.run(["cp", "-a", folder, here], check=True)  # which keeps hard links
        if not is_killed(here, question, number):
            break
        yield here
        shutil.rmtree(here)


def has_key(folder):
    held = [path.read_bytes() for path in folder.iterdir()]
    return any(key in one for one in held for key in (KEY, KEY.hex().encode()))


def has_ended(folder):
    """Whether who opens the files finds the end of the fit."""
    copy = shutil.copytree(folder, folder.with_name("opened"))
    with closing(sqlite3.connect(copy / "state")) as database:
        tables = database.execute("SELECT name FROM sqlite_master").fetchall()
        found = database.execute("SELECT state FROM skdp_owner_1").fetchall() if tables else []
    shutil.rmtree(copy)
    return any(json.loads(text)["has_ended"] for (text,) in found)


@pytest.fixture
def talk(monkeypatch):
    """A fit in which nobody dies; who is asked again, as another owner, gives the same answers."""
    keys = iter([KEY, b"1" * 32, b"2" * 32])
    monkeypatch.setattr("skdp.federated._masks.new_key", lambda: next(keys, KEY))
    monkeypatch.setattr("skdp.federated._owner.NoiseSource.key", lambda *_: b"n" * 32)
    talk = Talk(federation(), owners_of(federation(), WIDE))
    talk.run()
    return talk


@pytest.fixture
def folder(talk, tmp_path):
    """That of the first owner, before any question."""
    made = tmp_path / "folder"
    made.mkdir()
    PrivacyLedger.create(made / "ledger", dataset="a", epsilon=20.0, delta=1e-5)
    return made


def check_goes_on(folder, talk, n_before):
    """Come back, and go on to the end: the answers are the same, and no key is left anywhere."""
    for i in range(n_before, LAST + 1):
        assert ask(folder, talk.questions[i][0]) == talk.answers[i][0]
    assert sorted(path.name for path in folder.iterdir()) == ["ledger", "state"]
    assert not has_key(folder)
    assert len(PrivacyLedger(folder / "ledger").entries()) == 1


@needs_system
@pytest.mark.slow
@pytest.mark.parametrize("n_before", range(LAST + 1))
def test_an_owner_that_is_killed_at_any_change_comes_back(folder, talk, n_before):
    for i in range(n_before):
        ask(folder, talk.questions[i][0])
    assert has_key(folder) == (n_before > 0)
    ends = []
    for here in killed_at_each(folder, talk.questions[n_before][0]):
        ends.append(has_ended(here))
        assert not (ends[-1] and has_key(here))
        check_goes_on(here, talk, n_before)
    assert len(ends) > 10
    assert any(ends) == (n_before == LAST)


@needs_system
@pytest.mark.parametrize("number", range(0, 40, 13))
def test_an_owner_that_is_killed_at_some_changes_of_the_last_answer_comes_back(
    folder, talk, number
):
    for i in range(LAST):
        ask(folder, talk.questions[i][0])
    if is_killed(folder, talk.questions[LAST][0], number):
        assert not (has_ended(folder) and has_key(folder))
        check_goes_on(folder, talk, LAST)


@needs_system
@pytest.mark.slow
def test_who_is_killed_while_it_comes_back_comes_back(folder, talk):
    for i in range(LAST):
        ask(folder, talk.questions[i][0])
    for number, here in enumerate(killed_at_each(folder, talk.questions[LAST][0], step=4)):
        # In turns, so that all changes are among them.
        for again in killed_at_each(here, talk.questions[LAST][0], first=number % 3, step=3):
            assert not (has_ended(again) and has_key(again))
            check_goes_on(again, talk, LAST)
