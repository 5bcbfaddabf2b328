"""PCA of diffprivlib on rows of norm 1, which are not to be centered."""

from diffprivlib.models import PCA
from serve import serve


def fit(X, n_components, epsilon, seed):
    pca = PCA(n_components, epsilon=epsilon, data_norm=1.0, centered=True, random_state=seed)
    return pca.fit(X).components_


serve(fit)
