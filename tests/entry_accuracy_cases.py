"""Utility where an entry or an edge is protected; joined to `accuracy_cases.py`.

Unless a case says otherwise, epsilon is 1 and delta 1e-6.
"""

import warnings
from functools import partial

import numpy as np
from scipy.sparse.linalg import svds
from utility import KEY, Case

from skdp import DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_block_graph, make_interactions
from skdp.linalg.spectrum import orthonormal_basis
from skdp.units import Edge, Entry


def fitted(X, k, seed, **parameters):
    with warnings.catch_warnings():
        # How many components stand out from the noise is what is measured.
        warnings.filterwarnings("ignore", "Only .* stand out from the noise", PrivacyWarning)
        return DPTruncatedSVD(k, random_state=KEY + seed, **parameters).fit(X)


def captured_interactions(k, seed, **parameters):
    """Root of what is captured of a recommender's 1000 x 1500 table, by that of the best."""
    X = make_interactions(random_state=seed)
    best = svds(X, k, v0=np.ones(len(X.indptr) - 1), return_singular_vectors=False)
    # Below one over the number of entries.
    settings = {"privacy_unit": Entry((0, 1)), "delta": 5e-7}
    right = orthonormal_basis(fitted(X, k, seed, **settings, **parameters).components_.T)
    return np.linalg.norm(X @ right) / np.linalg.norm(best)


def gain_on_interactions(seed):
    with_noise = captured_interactions(1, seed, solver="input")
    return captured_interactions(1, seed) - with_noise


def found_communities(epsilon, seed):
    """Share of the nodes of two communities that the second eigenvector tells apart, mean of 4."""
    return np.mean([found_in_one_graph(epsilon, 4 * seed + i) for i in range(4)])


def found_in_one_graph(epsilon, seed):
    X, labels = make_block_graph(random_state=seed)
    fit = fitted(X, 2, seed, privacy_unit=Edge((0, 1)), epsilon=epsilon)
    agree = np.mean((fit.components_[1] > 0) == labels)
    return max(agree, 1 - agree)


ENTRY_CASES = [
    Case("captured, entry, interactions", partial(captured_interactions, 1), at_least=0.93),
    Case("captured beyond input, entry, interactions", gain_on_interactions, at_least=0.3),
    Case("communities, edge, epsilon 2", partial(found_communities, 2.0), at_least=0.7),
    Case("communities, edge, epsilon 4", partial(found_communities, 4.0), at_least=0.99),
]
