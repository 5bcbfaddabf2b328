"""The app of an owner: its rows, its key and its state are files in its own folder."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from owners.agreement import folder_of, keep, make_federation
from skdp import PrivacyLedger
from skdp.federated import Owner
from skdp.federated.flower import client_app


def folder_and_number(context):
    """Return the folder and the number of this owner; in a simulation, nodes are numbered."""
    number = context.node_config.get("owner", context.node_config.get("partition-id"))
    return folder_of(context, f"owner{number}"), int(number)


def make_owner(context):
    """Make the owner from its files; Flower asks for it with each message."""
    folder, number = folder_and_number(context)
    keys = (folder / "peers.txt").read_text().split()
    return Owner(
        make_federation(context),
        number,
        np.load(folder / "rows.npy"),
        identity=Ed25519PrivateKey.from_private_bytes((folder / "identity").read_bytes()),
        peers=[Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for key in keys],
        ledger=PrivacyLedger(folder / "ledger"),
        # A new file for each fit.
        state=folder / f"{context.run_config['fit']}.state",
    )


def save(model, context):
    """Keep the model for this owner."""
    keep(model, folder_and_number(context)[0])


app = client_app(make_owner, save)
