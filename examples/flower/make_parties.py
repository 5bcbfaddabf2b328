"""Write a folder for each party: `python make_parties.py FOLDER`.

A folder stands for a machine. In practice each owner already has its own rows, makes its own key,
and gets the public keys of the others in a way that the server cannot change.
"""

import sys
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import load_digits

from skdp import PrivacyLedger

N_OWNERS = 5


def make_parties(folder, rows):
    """Split rows among owners, each with a key and a ledger."""
    (folder / "server").mkdir(parents=True)
    identities = [Ed25519PrivateKey.generate() for _ in range(N_OWNERS)]
    peers = "\n".join(one.public_key().public_bytes_raw().hex() for one in identities)
    for number, identity in enumerate(identities):
        own = folder / f"owner{number}"
        own.mkdir()
        np.save(own / "rows.npy", rows[number::N_OWNERS])
        (own / "identity").touch(0o600)
        (own / "identity").write_bytes(identity.private_bytes_raw())
        (own / "peers.txt").write_text(peers)
        PrivacyLedger.create(own / "ledger", dataset="digits", epsilon=2.0, delta=1e-5)


if __name__ == "__main__":
    make_parties(Path(sys.argv[1]), load_digits().data)
