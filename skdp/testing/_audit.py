"""Audits: what fits to two datasets prove about the privacy of an estimator."""

import copyreg
import pickle
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from inspect import signature
from itertools import product, zip_longest
from numbers import Integral, Real
from threading import Lock, RLock
from types import CellType, CodeType, FunctionType, MethodType, NoneType, TracebackType
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtri
from scipy.stats import beta
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils import check_scalar

# ------------------------------
# List all objects that an object refers to.

Fit = Callable[[Any, int | None], Any]

# Types whose members pickles leave out, and the names of these members.
_OF_MEMBERS = (NoneType, type(Lock()), type(RLock()), CellType, CodeType, FunctionType, MethodType)
_MEMBERS = "cell_contents co_code co_consts co_names __code__ __closure__ __defaults__ "
_MEMBERS += "__kwdefaults__ __dict__ __func__ __self__"
#: Text about an object that cannot be compared.
UNREADABLE = "is a {}, which has no pickle: no check can read it"
_ARRAYS = (bool, int, float, complex, np.ndarray, array, memoryview)


class Part(NamedTuple):
    """The type of an object in words, and its contents as an array; None if unreadable."""

    form: str
    numbers: Any


def _digest(data: Any) -> np.ndarray:
    """Return a hash of bytes as an array of kind V: it can be compared, but is not a number."""
    return np.array(np.void(sha256(data).digest()[:8]))


def _inside(value: Any) -> Any:
    """Return the contents of an object: an array, or a dict of members, which may be unreadable."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        encoded = value.encode(errors="surrogatepass") if kind is str else value
        return _digest(encoded).view("S8")
    if kind in _ARRAYS or isinstance(value, np.generic):
        found = np.array(value)
        if found.dtype.hasobject:
            # An array of objects, or an int of more than 64 bits.
            return _inside(hex(value)) if kind is int else {"items": found.tolist()}
        return found if found.dtype.kind in "biufc" else _inside(found.tobytes())
    if kind is dict and all(type(key) is str for key in value):
        return value
    if kind in (list, tuple, dict):
        return dict(enumerate(value.items() if kind is dict else value))
    if isinstance(value, type | FunctionType):
        # The pickle of a class or function that can be imported is its name.
        with suppress(pickle.PicklingError, AttributeError):
            return _digest(pickle.dumps(value))
    if isinstance(value, type):
        return {"bases": value.__bases__, **attributes_of_class(value)}
    if kind in _OF_MEMBERS:
        return {name: getattr(value, name) for name in _MEMBERS.split() if hasattr(value, name)}
    return _reduced(value)


def _reduced(value: Any) -> Any:
    """Return the members of an object by name: those in its pickle, and other attributes."""
    if isinstance(value, TracebackType):
        raise TypeError("A pickle of a traceback, as libraries make it, lacks its variables.")
    reduce = copyreg.dispatch_table.get(type(value))
    reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return _digest(pickle.dumps(value))
    # What a pickle has: arguments of the constructor, the state, and items of a list or a dict.
    arguments, state, items, pairs = [*reduced[1:5], None, None, None][:4]
    named = {"()": arguments, "[]": items and [*items], "{}": pairs and dict(pairs)}
    # The pickle of an exception lacks these members.
    named |= {n: getattr(value, n, None) for n in ("__traceback__", "__context__", "__cause__")}
    named["array"] = np.asarray(value) if hasattr(value, "__array__") else None
    named = {name: one for name, one in named.items() if one is not None}
    # Attributes of data frames that are not in the pickle are caches, and are left out.
    is_frame = "array" in named and not isinstance(value, np.ndarray)
    for held in (state, None if is_frame else object.__getstate__(value)):
        # If a class has slots, the state in its pickle is a tuple of two dicts.
        for place, part in enumerate(held if isinstance(held, tuple) else (held,)):
            if part is not None:
                named |= part if isinstance(part, dict) else {f"state.{place}": part}
    return named


def attributes_of_class(kind: type) -> dict[str, Any]:
    """Return the members of a class by name; in place of functions, their default arguments."""
    members = {n: one for n, one in vars(kind).items() if not n.startswith(("__", "_abc_"))}
    for name, member in members.items():
        if hasattr(type(member), "__get__"):
            members[name] = [getattr(member, n, None) for n in ("__defaults__", "__kwdefaults__")]
    return members


def parts_of(value: Any) -> Iterator[tuple[str, Part]]:
    """Yield all objects that a value refers to, at any depth, with their paths, as ``a.b``.

    Classes and modules that can be imported are ends of these paths.
    """
    todo, seen = [("", value)], dict[int, Any]()
    while todo:
        name, value = todo.pop()
        form = type(value).__qualname__
        try:
            # References may form a circle: an object that was seen before counts as its first path.
            inside = _digest(seen[id(value)][0].encode()) if id(value) in seen else _inside(value)
        except Exception:
            inside = None
        if isinstance(inside, dict):
            # As long as the value is stored, no other object gets its id.
            seen[id(value)] = name, value
            named = [(f"{name}.{key}".removeprefix("."), one) for key, one in inside.items()]
            todo += named[::-1]
            inside = _digest(repr([*inside]).encode())
        elif isinstance(value, np.ndarray):
            order = " in Fortran order" if value.flags.fnc else ""
            form += f" of {value.dtype} of shape {value.shape}{order}"
        yield name, Part(form, inside)


def all_of(value: Any) -> tuple[tuple[str, Any], ...]:
    """Return all objects that a value refers to, in a form that compares and can be hashed."""
    parts = parts_of(value)
    return tuple((path, (form, None if x is None else x.tobytes())) for path, (form, x) in parts)


def released_by(result: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers that a fit has released, as flat arrays; texts become integers.

    For an estimator, these are all public attributes that end with an underscore.
    """
    if hasattr(result, "fit"):
        names = [name for name in dir(result) if name.endswith("_") and not name.startswith("_")]
        result = {name: getattr(result, name, None) for name in names}
    for name, (form, numbers) in parts_of(result):
        if numbers is None:
            raise TypeError(f"{name or 'output'} {UNREADABLE.format(form)}.")
        flat, kind = np.ravel(numbers), numbers.dtype.kind
        if kind == "S":
            yield name or "output", flat.view(np.uint64)
        elif kind != "V":
            yield name or "output", flat.view(flat.real.dtype).astype(np.float64)


def seeds_of(n_seeds: int, random_state: int | None) -> list[int]:
    """Draw different seeds below 2**32, which every generator accepts."""
    return np.random.default_rng(random_state).choice(2**32, n_seeds, replace=False).tolist()


def global_seed(seed: int | None) -> ExitStack:
    """Seed numpy's global generator within a context, if there is a seed; restore it afterwards."""
    after = ExitStack()
    if seed is not None:
        after.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
    return after


def check_fit(fit: Any) -> None:
    """Refuse what is no function of data and a seed."""
    try:
        signature(fit).bind(None, None)
    except ValueError:
        pass  # some functions of C have no signature
    except TypeError:
        raise TypeError(
            "fit must be a function of data and a seed, as "
            "lambda data, seed: DPPCA(2, random_state=seed).fit(data); got "
            f"{type(fit).__name__}."
        ) from None


def outputs_of(fit: Fit, data: Any, seed: int | None) -> dict[str, np.ndarray]:
    """Fit once, and ignore warnings; return the released arrays, and first their total length.

    numpy's global generator gets the same seed.
    """
    check_fit(fit)
    with warnings.catch_warnings(action="ignore"), global_seed(seed):
        named = dict(released_by(fit(data, seed)))
    return {"number of outputs": np.array([sum(map(len, named.values()))]), **named}


def numbers_of_fit(fit: Fit, data: Any, seed: int | None) -> np.ndarray:
    """Fit once; return all released numbers as a flat array."""
    return np.concatenate([*outputs_of(fit, data, seed).values()])


def numbers_of_fits(fit: Fit, tasks: Iterable[tuple[Any, int]]) -> np.ndarray:
    """Return the outputs of fits to two datasets, of shape (2, n_seeds, n_outputs).

    The tasks of the second dataset come last. Shorter outputs are filled with zeros.
    """
    outputs = Parallel()(delayed(numbers_of_fit)(fit, *task) for task in tasks)
    rows = np.array([*zip_longest(*outputs, fillvalue=0.0)])
    if len(rows) == 1:
        raise ValueError("fit must return numbers, an array or a fitted estimator; got none.")
    return rows.T.reshape(2, len(outputs) // 2, -1)


def columns_of_fits(fit: Fit, data: Any, other: Any, n_fits: int, seed: int | None) -> np.ndarray:
    """Fit both datasets with the same seeds; return outputs, of shape (n_outputs, 2, n_fits)."""
    check_scalar(n_fits, "n_fits", Integral, min_val=20)
    tasks = product((data, other), seeds_of(n_fits, seed))
    return numbers_of_fits(fit, tasks).transpose(2, 0, 1)


# ------------------------------
# From the error rates of a guess to a bound on privacy.


def error_bounds(errors: Any, n_fits: int, confidence: float) -> np.ndarray:
    """Return the pair of error rates, among those within confidence bounds, with the smallest mu.

    Each rate has an upper bound by Clopper and Pearson, with a quarter of the risk, and the mean of
    both rates has such a bound with half of the risk. If the mean is below 1/2, its bound holds for
    unequal rates, too: few errors in total are likeliest with two equal rates (Hoeffding 1956,
    "On the distribution of the number of successes in independent trials"). Above 1/2, the rates
    imply no mu.
    """
    wrong, miss = np.asarray(errors), (1 - confidence) / 4
    largest_first, largest_second = _upper_bound(wrong, n_fits, miss)
    mean = _upper_bound(wrong.sum(axis=0), 2 * n_fits, 2 * miss)
    # Equal rates imply the smallest mu; if bounds exclude equal rates, the most nearly equal do.
    first = np.minimum(largest_first, np.maximum(mean, 2 * mean - largest_second))
    return np.array([first, np.minimum(largest_second, 2 * mean - first)])


def _upper_bound(wrong: np.ndarray, n_tested: int, miss: float) -> np.ndarray:
    """Return the bound that an error rate exceeds with probability at most `miss`."""
    # `isf` returns NaN if every guess is wrong: the bound is 1 then.
    return np.nan_to_num(beta.isf(miss, wrong + 1, n_tested - wrong), nan=1.0)


def lower_bound_of_mu(errors: Any, n_fits: int, *, confidence: float = 0.95) -> Any:
    """Lower bound of the mu of Gaussian differential privacy, from the errors of a guess.

    Parameters
    ----------
    errors : array-like of int, of shape (2,) or (2, n_guesses)
        How often a guess mistook each of two datasets for the other one.
    n_fits : int
        Number of guesses for each dataset.
    confidence : float, default=0.95
        Probability with which the bound holds.

    Returns
    -------
    float or ndarray of shape (n_guesses,)
        The bound; 0 if the errors prove nothing.

    Examples
    --------
    >>> from skdp.testing import lower_bound_of_mu
    >>> print(lower_bound_of_mu([159, 159], 1000).round(2))
    1.86
    """
    first, second = error_bounds(errors, n_fits, confidence)
    return np.maximum(-ndtri(first) - ndtri(second), 0.0)


def lower_bound_of_epsilon(
    errors: Any, n_fits: int, *, delta: float, confidence: float = 0.95
) -> Any:
    """Lower bound of the epsilon at a delta, from the errors of a guess.

    Parameters
    ----------
    errors : array-like of int, of shape (2,) or (2, n_guesses)
        How often a guess mistook each of two datasets for the other one.
    n_fits : int
        Number of guesses for each dataset.
    delta : float
        Probability, ``0 <= delta < 1``.
    confidence : float, default=0.95
        Probability with which the bound holds.

    Returns
    -------
    float or ndarray of shape (n_guesses,)
        The bound; 0 if the errors prove nothing.

    Examples
    --------
    >>> from skdp.testing import lower_bound_of_epsilon
    >>> print(lower_bound_of_epsilon([10, 300], 1000, delta=1e-6).round(2))
    3.6
    """
    first, second = error_bounds(errors, n_fits, confidence)
    ratio = np.maximum((1 - delta - first) / second, (1 - delta - second) / first)
    return np.log(np.maximum(ratio, 1.0))


# ------------------------------
# Guesses about which of two datasets a fit has seen.

# A guess uses at most `_MOST` outputs and squares of outputs: those that differ most between both
# datasets. The fits that train it are split into `_N_FOLDS` folds.
_MOST, _N_FOLDS = 500, 5  # not studied
_RIDGES = np.logspace(-1, 6, 8)  # penalties of ridge regressions; not studied
# Quantiles of scores that serve as thresholds: few, so that none is best by chance, and some in the
# far tails, which bound epsilon best.
_QUANTILES = np.array([0.002, 0.01, *np.linspace(0.03, 0.97, 15), 0.99, 0.998])  # not studied
# Confidence of the bounds by which scores and threshold are chosen: if it were low, a choice
# that has few errors by chance could win.
_CONFIDENCE = 0.9999  # not studied
_LARGEST = 1e100  # size to which outputs are clipped; not tuned

# Three kinds of scores: of each training fold, by a model of the other folds; of all training fits,
# by a model of all of them; and of the test fits, by that model.
Scores = tuple[list[np.ndarray], np.ndarray, np.ndarray]


def _learned_scores(learned: np.ndarray, tested: np.ndarray) -> Iterator[Scores]:
    """Yield predictions by several ridge regressions: -1 is the first dataset, 1 the second.

    The inputs are the outputs of fits, first alone and then with their squares.
    """
    # Fits to both datasets alternate, so that folds have equally many of each.
    rows, new = (np.swapaxes(one, 0, 1).reshape(-1, one.shape[2]) for one in (learned, tested))
    ranks = QuantileTransformer(output_distribution="normal", n_quantiles=min(100, len(rows)))
    X, X_test = ranks.fit_transform(rows), ranks.transform(new)
    y = np.tile([-1.0, 1.0], len(X) // 2)
    pairs_of_folds = np.array_split(np.arange(len(X)).reshape(-1, 2), _N_FOLDS)
    folds = [(np.delete(np.arange(len(X)), one), one.ravel()) for one in pairs_of_folds]
    with_squares = np.hstack([X, X**2]), np.hstack([X_test, X_test**2])
    for inputs, test_inputs in ((X, X_test), with_squares):
        for n_selected in (min(_MOST, inputs.shape[1]), 1):
            model = make_pipeline(SelectKBest(k=n_selected), RidgeCV(_RIDGES))
            of_folds = [
                model.fit(inputs[others], y[others]).predict(inputs[fold]) for others, fold in folds
            ]
            yield of_folds, model.fit(inputs, y).predict(inputs), model.predict(test_inputs)


def _thresholds(scores: np.ndarray) -> np.ndarray:
    """Return quantiles of scores, and the floats just below them, as many scores may be equal."""
    places = np.quantile(scores, _QUANTILES, method="lower")
    return np.concatenate([places, np.nextafter(places, -np.inf)])


def _errors(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Count the wrong guesses for each dataset, if scores above a threshold mean the second one."""
    is_above = scores.reshape(-1, 2, 1) > thresholds
    return np.array([is_above[:, 0].sum(axis=0), (~is_above[:, 1]).sum(axis=0)])


def _errors_of_best(candidates: list[Scores], lower_bound: Callable[..., Any]) -> tuple[int, int]:
    """Choose scores and a threshold on the training fits; count errors on the test fits."""
    best, wrong = -1.0, (0, 0)
    outwards = 1e-9 * np.abs(np.tile(_QUANTILES, 2) - 0.5)
    for of_folds, trained, tested in candidates:
        errors = np.sum([_errors(fold, _thresholds(fold)) for fold in of_folds], axis=0)
        bounds = lower_bound(errors, len(trained) // 2, confidence=_CONFIDENCE)
        # Among equal bounds, the outermost quantile wins; if all are 0, the middle quantile.
        bounds += np.where(bounds > 0, outwards, -outwards)
        if bounds.max() > best:
            best = bounds.max()
            first, second = _errors(tested, _thresholds(trained))[:, bounds.argmax()]
            wrong = int(first), int(second)
    return wrong


# ------------------------------
# The audit.


class AuditReport(NamedTuple):
    """The result of an audit; :func:`skdp.testing.audit` makes it.

    Attributes
    ----------
    mu : float
        Lower bound of the mu of Gaussian differential privacy.
    epsilon : float
        Lower bound of the epsilon at `delta`.
    delta : float
        The delta that was passed.
    confidence : float
        Probability with which each of both bounds holds.
    n_tested : int
        Number of guesses for each dataset: half of its fits.
    errors : tuple of int
        How often the guess that proves `mu` mistook each dataset for the other one.

    Examples
    --------
    >>> from skdp.testing import AuditReport
    >>> print(AuditReport(0.8, 1.2, 1e-6, 0.95, 1000, (310, 305)))
    mu >= 0.8, epsilon >= 1.2 at delta 1e-06, each with confidence 0.95: (310, 305) of 1000 guesses
    err.
    """

    mu: float
    epsilon: float
    delta: float
    confidence: float
    n_tested: int
    errors: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"mu >= {self.mu:.3g}, epsilon >= {self.epsilon:.3g} at delta {self.delta:g}, each "
            f"with confidence {self.confidence:g}: {self.errors} of {self.n_tested} guesses err."
        )


def audit(
    fit: Fit,
    data: Any,
    neighbour: Any,
    *,
    n_fits: int = 1000,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> AuditReport:
    """Compute lower bounds of mu and epsilon from fits to two neighboring datasets.

    Half of the fits train a guess about which dataset a fit has seen; the other half tests the
    guess, whose errors bound mu and epsilon. In ``joblib.parallel_config(n_jobs=2, verbose=1)`` two
    processes fit, and print their progress.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns all that is released: an array, a fitted estimator, whose public
        attributes are used, or an object of numbers and texts. The seed is an int below 2**32,
        different for each fit.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. Choose the unit that you
        expect to be most visible.
    n_fits : int, default=1000
        Number of fits to each dataset, at least 20.
    delta : float, default=1e-6
        Probability, ``0 <= delta < 1``, at which epsilon is bounded.
    confidence : float, default=0.95
        Probability with which each of both bounds holds.
    random_state : int, default=None
        Seed from which the seeds of the fits are drawn.

    Returns
    -------
    AuditReport
        The bounds, and the errors behind them.

    Raises
    ------
    ValueError
        If `n_fits`, `delta` or `confidence` is out of range, or if `fit` returns no numbers.
    TypeError
        If `fit` is no function of two arguments, or its result holds an object without a
        pickle, such as a generator.

    Notes
    -----
    **Privacy.** The report is a function of both datasets: audit on made-up data. A bound above
    the claim refutes the claim. A bound below it proves nothing: another neighbor, or another
    statistic, may reveal more.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import audit
    >>> def noisy_sum(data, seed):
    ...     return np.sum(data) + np.random.default_rng(seed).normal(scale=0.5)
    >>> found = audit(noisy_sum, [1, 1, 1], [1, 1, 0], n_fits=2000, random_state=0)
    >>> 1.5 < found.mu <= 2.0
    True
    """
    check_scalar(n_fits, "n_fits", Integral, min_val=20)
    between: dict[str, Any] = {"target_type": Real, "min_val": 0, "max_val": 1}
    check_scalar(delta, "delta", **between, include_boundaries="left")
    check_scalar(confidence, "confidence", **between, include_boundaries="neither")
    datasets = [data] * n_fits + [neighbour] * n_fits
    outputs = numbers_of_fits(fit, zip(datasets, seeds_of(2 * n_fits, random_state), strict=True))
    outputs = np.clip(np.nan_to_num(outputs, nan=_LARGEST / 2), -_LARGEST, _LARGEST)
    n_tested = n_fits // 2
    with warnings.catch_warnings(action="ignore"):
        # Constant outputs give warnings.
        candidates = list(_learned_scores(outputs[:, n_tested:], outputs[:, :n_tested]))
    of_epsilon = partial(lower_bound_of_epsilon, delta=delta)
    wrong = _errors_of_best(candidates, lower_bound_of_mu)
    mu = lower_bound_of_mu(wrong, n_tested, confidence=confidence)
    epsilon = of_epsilon(_errors_of_best(candidates, of_epsilon), n_tested, confidence=confidence)
    return AuditReport(float(mu), float(epsilon), delta, confidence, n_tested, wrong)
