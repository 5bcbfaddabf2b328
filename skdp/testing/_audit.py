"""Audits: what fits to two datasets prove about the privacy of what is fitted."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import issparse
from scipy.special import ndtri
from scipy.stats import beta

# ------------------------------
# What fits tell.

Fit = Callable[[Any, int | None], Any]

# How deep objects within objects are looked into.
_DEEPEST = 6  # not tuned


def held_by(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, wherever it keeps them; None of functions and classes."""
    if isinstance(value, type) or callable(value):
        return None
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    kept = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**kept, **getattr(value, "__dict__", {})}


def parts_of(value: Any, name: str = "", deepest: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """Give the arrays, numbers and texts within a value, each with its name."""
    if issparse(value):
        value = value.toarray()
    if value is None or isinstance(value, np.ndarray | np.generic | Number | str | bytes):
        yield name, value
        return
    inside: Iterable[tuple[str, Any]]
    if isinstance(value, Mapping):
        inside = ((f"{name}[{key!r}]", one) for key, one in value.items())
    elif isinstance(value, list | tuple):
        inside = ((f"{name}[{number}]", one) for number, one in enumerate(value))
    else:
        held = (held_by(value) or {}).items()
        inside = ((f"{name}.{key}".removeprefix("."), one) for key, one in held)
    for key, one in inside if deepest else ():
        yield from parts_of(one, key, deepest - 1)


def released_by(result: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Give the numbers that a fit released, flat: an array, or fitted attributes by name."""
    if hasattr(result, "fit"):
        result = {
            name: value
            for name, value in vars(result).items()
            if name.endswith("_") and not name.startswith("_")
        }
    items = result.items() if isinstance(result, dict) else [("output", result)]
    for name, value in items:
        arrays = (np.ravel(np.asarray(part)) for _, part in parts_of(value))
        numbers = [one.astype(np.float64) for one in arrays if one.dtype.kind in "biuf"]
        yield name, np.concatenate(numbers) if numbers else np.zeros(0)


def numbers_of(result: Any) -> np.ndarray:
    """Flatten all numbers that a fit released."""
    return np.concatenate([np.zeros(0), *(numbers for _, numbers in released_by(result))])


def seeds_of(n_seeds: int, random_state: int | None) -> list[int]:
    """Draw seeds that differ, and that every generator accepts."""
    generator = np.random.default_rng(random_state)
    return [int(seed) for seed in generator.choice(2**32, n_seeds, replace=False)]


@contextmanager
def global_seed(seed: int | None) -> Iterator[None]:
    """Give numpy's global generator a seed inside, if there is one; then its state is as it was."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        if seed is not None:
            np.random.set_state(state)  # noqa: NPY002


def numbers_of_fit(fit: Fit, data: Any, seed: int | None) -> np.ndarray:
    """Fit once, without the warnings, and flatten the result.

    The seed is that of numpy's global generator, too.
    """
    with warnings.catch_warnings(), global_seed(seed):
        warnings.simplefilter("ignore")
        return numbers_of(fit(data, seed))


def names_of_numbers(fit: Fit, data: Any, seed: int) -> np.ndarray:
    """Name the attribute of each number that a fit releases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = released_by(fit(data, seed))
    return np.array([name for name, numbers in released for _ in numbers], dtype=str)


def numbers_of_fits(
    fit: Fit, datasets: tuple[Any, Any], seeds: tuple[list[int], list[int]], **how: Any
) -> list[np.ndarray]:
    """Fit to both datasets with all seeds; give an array for each, of a row a fit.

    Outputs of other lengths are filled up with zeros, and tell their length first.
    """
    tasks = [(data, seed) for data, own in zip(datasets, seeds, strict=True) for seed in own]
    outputs = Parallel(**how)(delayed(numbers_of_fit)(fit, *task) for task in tasks)
    longest = max(map(len, outputs))
    if longest == 0:
        raise ValueError("fit must return numbers, an array or a fitted estimator; got none.")
    rows = np.zeros((len(tasks), 1 + longest))
    for row, output in zip(rows, outputs, strict=True):
        row[: 1 + len(output)] = len(output), *output
    return np.split(rows, [len(seeds[0])])


# ------------------------------
# From errors of a guess to what they prove.


def error_bounds(errors: Any, n_fits: int, *, confidence: float = 0.95) -> np.ndarray:
    """Upper bounds of both error rates of a guess, which hold together.

    They are those of Clopper and Pearson, each with half of what confidence leaves.

    Parameters
    ----------
    errors : array-like of int, of length 2
        How often the guess took each of two datasets for the other one.
    n_fits : int
        Number of guesses for each dataset.
    confidence : float, default=0.95
        Probability with which both bounds hold.

    Returns
    -------
    ndarray
        Of the shape of `errors`.

    Examples
    --------
    >>> from skdp.testing import error_bounds
    >>> error_bounds([0, 30], 100).round(3)
    array([0.036, 0.4  ])
    """
    wrong = np.asarray(errors)
    bounds = beta.isf((1 - confidence) / 2, wrong + 1, np.maximum(n_fits - wrong, 1))
    return np.where(wrong < n_fits, bounds, 1.0)


def lower_bound_of_mu(errors: Any, n_fits: int, *, confidence: float = 0.95) -> float:
    """Lower bound of the mu of Gaussian differential privacy, from the errors of a guess.

    Parameters
    ----------
    errors : array-like of int, of length 2
        How often the guess took each of two datasets for the other one.
    n_fits : int
        Number of guesses for each dataset.
    confidence : float, default=0.95
        Probability with which the bound holds.

    Returns
    -------
    float
        The bound; 0 if the errors prove nothing.

    Examples
    --------
    >>> from skdp.testing import lower_bound_of_mu
    >>> round(lower_bound_of_mu([159, 159], 1000), 2)
    1.81
    """
    return float(_mu_proved(*error_bounds(errors, n_fits, confidence=confidence)))


def lower_bound_of_epsilon(
    errors: Any, n_fits: int, *, delta: float, confidence: float = 0.95
) -> float:
    """Lower bound of the epsilon at a delta, from the errors of a guess.

    Parameters
    ----------
    errors : array-like of int, of length 2
        How often the guess took each of two datasets for the other one.
    n_fits : int
        Number of guesses for each dataset.
    delta : float
        Probability, ``0 <= delta < 1``.
    confidence : float, default=0.95
        Probability with which the bound holds.

    Returns
    -------
    float
        The bound; 0 if the errors prove nothing.

    Examples
    --------
    >>> from skdp.testing import lower_bound_of_epsilon
    >>> round(lower_bound_of_epsilon([10, 300], 1000, delta=1e-6), 2)
    3.6
    """
    return float(_epsilon_proved(*error_bounds(errors, n_fits, confidence=confidence), delta=delta))


def _mu_proved(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the least mu at which both error rates are possible."""
    return np.maximum(-ndtri(first) - ndtri(second), 0.0)


def _epsilon_proved(first: np.ndarray, second: np.ndarray, *, delta: float) -> np.ndarray:
    """Return the least epsilon at which both error rates are possible."""
    ratios = [(1 - delta - one) / other for one, other in ((first, second), (second, first))]
    return np.log(np.maximum(np.maximum(*ratios), 1.0))


# ------------------------------
# A statistic that tells two datasets apart.

# Of most outputs more are left out, those that differ least, and values so many scales away count
# as that far.
_MOST_OUTPUTS, _FARTHEST = 500, 20.0  # not studied
# Relative to the largest square of a singular value.
_RIDGES = (1e-6, 1e-2, 10.0)  # not studied
# Of scores: few, so that none is the best by chance; epsilon may show far out in a tail.
_QUANTILES = np.linspace(0.03, 0.97, 15)  # not studied
_OF_TAILS = np.array([0.002, 0.01, *_QUANTILES, 0.99, 0.998])  # not studied
# Of what is proved where statistic and threshold are chosen; if low, few errors win by chance.
_CONFIDENCE = 0.99  # not studied
_LARGEST = 1e100  # not tuned

Scores = Callable[[np.ndarray], np.ndarray]


def _finite(outputs: np.ndarray) -> np.ndarray:
    """Bring outputs to where squares do not overflow; NaN becomes a number of its own."""
    kept: np.ndarray = np.clip(np.nan_to_num(outputs, nan=_LARGEST / 2), -_LARGEST, _LARGEST)
    return kept


def _scaled(both: np.ndarray) -> Scores:
    """Return what brings outputs to the scales that they have in a sample."""
    low, middle, high = np.quantile(both, (0.16, 0.5, 0.84), axis=0)
    # Of what hardly ever changes, any change stands out.
    spread = np.where(high > low, high / 2 - low / 2, both.std(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    return lambda outputs: np.clip((outputs - middle) / spread, -_FARTHEST, _FARTHEST)


def _separation(features: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Return how far the means of both sides lie apart, in standard deviations."""
    first, second = features[sides < 0], features[sides > 0]
    return np.abs(first.mean(0) - second.mean(0)) / np.sqrt(first.var(0) + second.var(0) + 1e-12)


def _directions(features: np.ndarray, sides: np.ndarray) -> Iterator[np.ndarray]:
    """Give weights of features: of the best one alone, and of ridge regressions of the side."""
    alone = np.zeros(features.shape[1])
    best = int(_separation(features, sides).argmax())
    alone[best] = np.sign(sides @ features[:, best])
    yield alone
    left, values, right = np.linalg.svd(features - features.mean(0), full_matrices=False)
    for ridge in _RIDGES:
        damped = values / (values**2 + ridge * values[0] ** 2 + 1e-300)
        yield (left.T @ sides * damped) @ right


def _weighed(featured: Scores, weights: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    scores: np.ndarray = featured(outputs) @ weights
    return scores


def _learned_scores(first: np.ndarray, second: np.ndarray) -> Iterator[Scores]:
    """Give statistics that are larger on the second sample: linear ones, and of squares too."""
    both = np.concatenate([first, second])
    sides = np.repeat([-1.0, 1.0], [len(first), len(second)])
    scaled = _scaled(both)
    features = scaled(both)
    squared = np.maximum(_separation(features, sides), _separation(features**2, sides))
    kept = np.argsort(-squared, kind="stable")[:_MOST_OUTPUTS]

    def linear(outputs: np.ndarray) -> np.ndarray:
        return scaled(outputs)[:, kept]

    def quadratic(outputs: np.ndarray) -> np.ndarray:
        return np.hstack([linear(outputs), linear(outputs) ** 2])

    for featured in (linear, quadratic):
        for weights in _directions(featured(both), sides):
            yield partial(_weighed, featured, weights)


def _errors(scores: list[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """Count both errors of guessing the second dataset above each threshold."""
    first, second = (np.searchsorted(np.sort(one), thresholds, side="right") for one in scores)
    return np.array([len(scores[0]) - first, second])


def _best_guess(
    statistics: list[Scores],
    samples: list[np.ndarray],
    proved: Callable[..., np.ndarray],
    quantiles: np.ndarray,
) -> tuple[Scores, float]:
    """Choose statistic and threshold that prove most on samples."""
    best = -math.inf, statistics[0], 0.0
    for statistic in statistics:
        scores = [statistic(sample) for sample in samples]
        # Above a score, or from it on: it may have a probability of its own.
        places = np.quantile(np.concatenate(scores), quantiles, method="lower")
        thresholds = np.concatenate([places, np.nextafter(places, -np.inf)])
        errors = _errors(scores, thresholds)
        found = proved(*error_bounds(errors, len(samples[0]), confidence=_CONFIDENCE))
        # Where nothing is proved, the middle is the best.
        place = int((found - 1e-9 * np.abs(np.tile(quantiles, 2) - 0.5)).argmax())
        if found[place] > best[0]:
            best = found[place], statistic, thresholds[place]
    return best[1:]


# ------------------------------
# The audit.


@dataclass(frozen=True)
class AuditReport:
    """What an audit has proved; :func:`skdp.testing.audit` makes it.

    Attributes
    ----------
    mu : float
        Lower bound of the mu of Gaussian differential privacy.
    epsilon : float
        Lower bound of the epsilon at `delta`.
    delta : float
        As it was passed.
    confidence : float
        Probability with which each of both bounds holds.
    n_fits : int
        Number of fits to each dataset.
    errors : tuple of int
        How often the guess that proves `mu` took each dataset for the other one.
    n_tested : int
        Number of guesses for each dataset.

    Examples
    --------
    >>> from skdp.testing import AuditReport
    >>> print(AuditReport(0.8, 1.2, 1e-6, 0.95, 2000, (310, 305), 1000))
    mu >= 0.8, and epsilon >= 1.2 at delta 1e-06, each with confidence 95%: of 1000 tests of 2000
    fits to each dataset 310 and 305 were wrong.
    """

    mu: float
    epsilon: float
    delta: float
    confidence: float
    n_fits: int
    errors: tuple[int, int]
    n_tested: int

    def __str__(self) -> str:
        return (
            f"mu >= {self.mu:.3g}, and epsilon >= {self.epsilon:.3g} at delta {self.delta:g}, each "
            f"with confidence {self.confidence:.3%}".replace(".000%", "%")
            + f": of {self.n_tested} tests of {self.n_fits} fits to each dataset "
            f"{self.errors[0]} and {self.errors[1]} were wrong."
        )


def audit(
    fit: Fit,
    data: Any,
    neighbour: Any,
    *,
    n_fits: int = 1000,
    delta: float = 1e-6,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: int | None = None,
) -> AuditReport:
    """Bound from below how much fits to two neighboring datasets reveal.

    A guess which dataset a fit has seen is learned from one half of the fits, and tested on the
    other half. Its errors bound mu and epsilon.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns what is released: an array, or a fitted estimator, whose public
        attributes are taken. The seed is an int below 2**32, another one for each fit.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. Choose the unit that
        you expect to be seen best.
    n_fits : int, default=1000
        Number of fits to each dataset, at least 20.
    delta : float, default=1e-6
        Probability, ``0 <= delta < 1``, at which epsilon is bounded.
    confidence : float, default=0.95
        Probability with which each of both bounds holds.
    n_jobs : int, default=None
        Processes or threads that fit, as in ``joblib.Parallel``.
    verbose : int, default=0
        Above 0, progress is printed, as by ``joblib.Parallel``.
    random_state : int, default=None
        Seed of the seeds.

    Returns
    -------
    AuditReport
        The bounds, and the errors behind them.

    Raises
    ------
    ValueError
        If `n_fits`, `delta` or `confidence` is out of range, or if `fit` returns no numbers.

    Notes
    -----
    **Privacy.** The report is a function of both datasets: audit on made-up data. A bound above
    what is claimed refutes the claim. A bound below it proves nothing: another neighbor, or another
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
    for name, value, is_right, wanted in (
        ("n_fits", n_fits, n_fits >= 20, "at least 20"),
        ("delta", delta, 0 <= delta < 1, "in [0, 1)"),
        ("confidence", confidence, 0 < confidence < 1, "between 0 and 1"),
    ):
        if not is_right:
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    seeds = seeds_of(2 * n_fits, random_state)
    how = {"n_jobs": n_jobs, "verbose": verbose}
    outputs = numbers_of_fits(fit, (data, neighbour), (seeds[:n_fits], seeds[n_fits:]), **how)
    outputs = [_finite(one) for one in outputs]
    return _report(outputs, delta, confidence)


def _report(outputs: list[np.ndarray], delta: float, confidence: float) -> AuditReport:
    """Learn on a quarter of the outputs, choose on another one, and test on the other half."""
    n_fits = len(outputs[0])
    learned, chosen, tested = zip(
        *(np.split(one, [n_fits // 4, n_fits // 2]) for one in outputs), strict=True
    )
    n_tested = len(tested[0])
    statistics = list(_learned_scores(*learned))
    wrong = []
    of_epsilon = partial(_epsilon_proved, delta=delta)
    for proved, quantiles in ((_mu_proved, _QUANTILES), (of_epsilon, _OF_TAILS)):
        statistic, threshold = _best_guess(statistics, list(chosen), proved, quantiles)
        errors = _errors([statistic(one) for one in tested], np.array([threshold]))[:, 0]
        wrong.append((int(errors[0]), int(errors[1])))
    mu = lower_bound_of_mu(wrong[0], n_tested, confidence=confidence)
    epsilon = lower_bound_of_epsilon(wrong[1], n_tested, delta=delta, confidence=confidence)
    return AuditReport(mu, epsilon, delta, confidence, n_fits, wrong[0], n_tested)
