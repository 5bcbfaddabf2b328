"""What other processes do to a ledger: functions that they can import."""

import os
import signal
import sys
import time

from skdp import BudgetError, PrivacyLedger
from skdp.privacy import PrivacySpent


def Fit(mu, epsilon=1.0, delta=1e-6, delta_tail=0.0, unit="row", adjacency="replace", **more):
    """Make the record of a fit."""
    return PrivacySpent(epsilon, delta, mu, unit, adjacency, (), (), delta_tail=delta_tail, **more)


def charge_until_refused(path, mu, n_tries):
    """Charge as often as the ledger takes it; return how often that was."""
    ledger, n_charged = PrivacyLedger(path), 0
    for number in range(n_tries):
        try:
            ledger.charge(Fit(mu), f"{os.getpid()} {number}")
        except BudgetError:
            continue
        n_charged += 1
    return n_charged


def charge_and_tell(path, mu):
    """Charge without end, and tell of every charge when it is through."""
    ledger = PrivacyLedger(path)
    while True:
        ledger.charge(Fit(mu), "killed")
        sys.stdout.write("charged\n")
        sys.stdout.flush()


def die_soon(seconds):
    """Be killed, in whatever it is doing."""
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)
