"""What all parties agree on."""

from pathlib import Path

import joblib

from skdp import DPPCA
from skdp.federated import Federation


def make_federation(context):
    """Make the federation of a run, the same for all parties."""
    config = context.run_config
    pca = DPPCA(
        5, epsilon=config["epsilon"], row_norm=config["row-norm"], center=False, solver="covariance"
    )
    return Federation(
        pca,
        n_rows=config["n-rows"],
        n_features=config["n-features"],
        owners=config["owners"],
    )


def folder_of(context, name):
    """Return the folder of a party; a node says where its own is."""
    given = context.node_config.get("folder")
    return Path(given) if given else Path(context.run_config["folders"], name)


def keep(model, folder):
    """Write the model; a file of that name is always a whole one."""
    path = folder / "model.joblib"
    joblib.dump(model, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
