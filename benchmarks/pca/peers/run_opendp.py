"""PCA of OpenDP on rows of norm 1, with the center known to be 0; it takes no seed."""

import numpy as np
import opendp.prelude as dp
from opendp.extras.sklearn.decomposition import make_private_pca
from serve import serve

dp.enable_features("contrib", "idealized-numerics")


def fit(X, n_components, epsilon, seed):
    n_rows, n_features = X.shape
    rows = dp.numpy.array2_domain(
        size=n_rows, num_columns=n_features, norm=1.0, p=2, origin=np.zeros(n_features), T=float
    )
    pca = make_private_pca(rows, dp.symmetric_distance(), epsilon, num_components=n_components)
    return np.asarray(pca(X).Vt)[:n_components]


serve(fit)
