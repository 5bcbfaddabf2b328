"""Logistic regression of private records."""

from typing import Any, Self

from sklearn.base import _fit_context

from skdp.linear_model._classifier import PrivateClassifier
from skdp.linear_model._logistic.fit import solve_logistic
from skdp.linear_model._logistic.plan import plan_logistic


class DPLogisticRegression(PrivateClassifier):
    r"""Logistic regression with differential privacy, of two classes or more.

    A fit clips the rows, releases their second moment together with their classes, whitens the rows
    by it, and takes gradient steps from there. Nothing has to be tuned.

    Parameters
    ----------
    classes : array-like or None, default=None
        All labels that there may be, two or more: which of them occur is then protected, and a
        class without records is fine. ``None`` takes the labels of y, which makes it public which
        labels occur, and warns of that.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches off the noise and the clipping of gradients.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record"}, default="record"
        What is protected: one record, that is a row with its label.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound to which the Euclidean norms of rows are clipped, in the units of X; the noise
        grows with it, and far below most norms probabilities are near 0 and 1. ``None`` releases
        their median, or, of few records, takes the rows to be standardized. From 1e-100 to 1e100,
        or ``inf`` with ``epsilon=inf``.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None``: those of matrix products.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        one that can be guessed voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, sorted. Public: given, or promised to be.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, of two classes those of the second one. They have the direction of those of a
        logistic regression, but not quite their size. Covered by the guarantee.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The same without privacy.
    DPTraceClassifier : Two classes of matrices, with coefficients of low rank.

    Notes
    -----
    **Privacy.** Unit: a record, that is a row with its label. Adjacency: `adjacency`. Mechanisms:
    Gaussian, and exponential for the median of the norms, accounted for in Gaussian differential
    privacy. Released: that median, unless `row_norm` is given or the records are few; the second
    moment of clipped rows, a constant and the classes; and in each step the sum of the gradients,
    each clipped in norm. `plan` lists every release before a fit, `privacy_spent_` afterwards.
    Assumed public: the number of records, the shape, dtype and container of X, and its parts,
    feature names, the classes, and parameters. That the classes are public is promised by the
    caller if they are taken from y, and ``privacy_spent_.enforced`` is then False. NaN, infinity
    and labels that are not among the classes are refused, which tells that there are none. Not
    covered: what `predict` and its like and `score` return, noise-free functions of the rows passed
    in; and the running time. No assumption about the data is made.

    Clipping makes the coefficients longer than those of a logistic regression, 1.3 to 1.6 times on
    data that follow the model. Where noise is known to make up much of them, they are drawn to 0,
    and probabilities to the frequencies of the classes. Without `classes` every fit of a
    cross-validation of scikit-learn warns, and a fold may lack a class: pass `classes`, and
    ``labels=`` to scores such as the log loss. Mathematics and proofs: :doc:`/classification`.

    After the check, and a digest if there is a seed, a fit reads X for the norms of the rows, for
    the moment, for the norms of whitened rows, and in every step, of which public facts make 8 to
    40. Time is O(n d^2) once and O(n d K) a step, memory O((d + K)^2); sparse rows stay sparse.
    Rows in parts, of `RowBlocks.from_partitions`, are read two times and in every step: once for
    the check, the norms and the digest, and once for the moment. The norms of whitened rows are
    found anew in every step, in O(n d^2), and nothing is kept of a row. A row or a label that the
    check has passed, and that is none when it is read again, counts nowhere from then on.

    With ``epsilon=inf`` the coefficients are those of scikit-learn without a penalty; `row_norm`
    still clips rows if it is finite.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp import DPLogisticRegression
    >>> X, y = make_classification(20000, 5, random_state=0)
    >>> model = DPLogisticRegression(classes=[0, 1], epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (1, 5)
    >>> model.score(X, y) > 0.8
    True
    """

    _plan, _solve = staticmethod(plan_logistic), staticmethod(solve_logistic)

    def __init__(
        self,
        *,
        classes: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: str = "record",
        adjacency: str = "replace",
        row_norm: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.row_norm = row_norm
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_records, n_features)
            Rows of the records; a `RowBlocks` of parts, with their labels.
        y : array-like of shape (n_records,) or None, default=None
            Labels, which are whole numbers or strings, for a dask collection in the same chunks;
            ``None`` if rows in parts bring theirs.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y or a parameter is not acceptable; nothing has been spent then.
        """
        self._fit(X, y)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
