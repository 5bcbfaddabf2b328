"""Mistakes that a few fits show: repeated noise, low bits, and what follows from data exactly."""

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import fisher_exact, rankdata, t

from skdp.testing._audit import (
    Fit,
    names_of_numbers,
    numbers_of_fit,
    numbers_of_fits,
    parts_of,
    seeds_of,
)
from skdp.testing._recording import said_by

# A finding of a statistical test comes by chance this often, over all outputs.
_CHANCE = 1e-9  # not tuned


@dataclass(frozen=True)
class Finding:
    """One mistake that a check has found.

    Attributes
    ----------
    where : str
        The output, attribute or place that shows it.
    what : str
        What is wrong there.

    Examples
    --------
    >>> from skdp.testing import Finding
    >>> print(Finding("mean_", "differs between both datasets, whatever the seed"))
    mean_: differs between both datasets, whatever the seed
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


# ------------------------------
# Repeated noise.

# A forked process that has not answered by then, in seconds, is given up.
_PATIENCE = 300.0  # not tuned
_N_REPEATS = 3  # not studied


def find_repeated_noise(
    fit: Fit,
    data: Any,
    neighbour: Any,
    *,
    n_fits: int = 40,
    random_state: int | None = None,
) -> list[Finding]:
    """Look for fits that draw the same noise, which solves for the data.

    Without a seed no two fits may agree: one after the other, in two threads, in two processes that
    get copies of `fit`, or in forks of this process. With one seed, noise on other data has to be
    other noise.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns what is released: an array, or a fitted estimator. A seed of
        None asks for fresh noise.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes.
    n_fits : int, default=40
        Number of seeds with which both datasets are fitted, at least 20.
    random_state : int, default=None
        Seed of the seeds.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Raises
    ------
    ValueError
        If `n_fits` is too small, or if `fit` returns no numbers.

    Notes
    -----
    **Privacy.** The findings are functions of both datasets: check with made-up data. An estimator
    whose noise follows from a seed alone is found only if the seed is used.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import find_repeated_noise
    >>> def noisy_sum(data, seed):
    ...     return np.sum(data) + np.random.default_rng(seed).normal()
    >>> for finding in find_repeated_noise(noisy_sum, [1, 1], [1, 0], random_state=0):
    ...     print(finding)
    output: the same seed gives other data the same noise
    """
    _check_n_fits(n_fits)
    found = [
        Finding(place, "the same output without a seed: noise is missing, or not fresh")
        for place, run in _PLACES.items()
        if _agree(*run(fit, data))
    ]
    shared = _correlated(*_pairs(fit, data, neighbour, n_fits, random_state))
    return found + _named(shared, "the same seed gives other data the same noise", fit, data)


def _named(numbers: np.ndarray, what: str, fit: Fit, data: Any) -> list[Finding]:
    """Name the attributes that have the numbers, or the output as a whole."""
    if not len(numbers):
        return []
    names = names_of_numbers(fit, data, 0)
    return [Finding(str(name), what) for name in dict.fromkeys(names[numbers])]


def _check_n_fits(n_fits: int) -> None:
    if n_fits < 20:
        raise ValueError(f"n_fits must be at least 20, got {n_fits!r}.")


def _several(fit: Fit, data: Any) -> list[np.ndarray]:
    return [numbers_of_fit(fit, data, None) for _ in range(_N_REPEATS)]


def _agree(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Whether all fits of one place agree with those of another to the last bit."""
    return all(map(np.array_equal, first, second))


def _in_turn(fit: Fit, data: Any) -> list[list[np.ndarray]]:
    outputs = _several(fit, data)
    return [outputs, [outputs[-1], *outputs[:-1]]]


def _by(backend: str) -> Callable[[Fit, Any], list[list[np.ndarray]]]:
    def run(fit: Fit, data: Any) -> list[list[np.ndarray]]:
        return list(Parallel(2, backend=backend)(delayed(_several)(fit, data) for _ in range(2)))

    return run


def _in_forks(fit: Fit, data: Any) -> list[list[np.ndarray]]:
    """Fit in two forks, which begin with all that this process knows; without, nothing agrees."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return [[np.zeros(1)], [np.ones(1)]]
    return [_in_fork(fit, data) for _ in range(2)]


def _in_fork(fit: Fit, data: Any) -> list[np.ndarray]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    fork = context.Process(target=lambda: there.send(_several(fit, data)), daemon=True)
    with warnings.catch_warnings():
        # Of threads, which a fork does not have.
        warnings.simplefilter("ignore", DeprecationWarning)
        fork.start()
    there.close()
    try:
        if not here.poll(_PATIENCE):
            raise RuntimeError("fit has not ended in a forked process.")
        outputs: list[np.ndarray] = here.recv()
    except EOFError as error:
        raise RuntimeError("fit has failed in a forked process.") from error
    finally:
        fork.kill()
        fork.join()
    return outputs


_PLACES = {
    "two fits": _in_turn,
    "two threads": _by("threading"),
    "two processes": _by("loky"),
    "two forks": _in_forks,
}


def _pairs(
    fit: Fit, data: Any, neighbour: Any, n_fits: int, random_state: int | None
) -> list[np.ndarray]:
    """Fit to both datasets with the same seeds; columns are outputs, rows are seeds."""
    seeds = seeds_of(n_fits, random_state)
    both = numbers_of_fits(fit, (data, neighbour), (seeds, seeds))
    return [one[:, 1:] for one in both]


def _correlated(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return which outputs rise and fall together, by correlations of ranks."""
    n_fits = len(first)
    ranks = [rankdata(one, axis=0) - (n_fits + 1) / 2 for one in (first, second)]
    lengths = [np.sqrt((one**2).sum(axis=0)) for one in ranks]
    product = np.maximum(lengths[0] * lengths[1], 1e-300)
    rho = np.clip((ranks[0] * ranks[1]).sum(axis=0) / product, 0.0, 1 - 1e-12)
    chance = t.sf(rho * np.sqrt((n_fits - 2) / (1 - rho**2)), n_fits - 2)
    return np.flatnonzero(chance * first.shape[1] < _CHANCE)


# ------------------------------
# Low bits.

# Differences of outputs that agree to so many units in the last place of the largest are the same.
_ROUNDING = 16  # not tuned
# Below so many standard deviations, sums have lost digits by which the value shows.
_SMALL = 0.25  # not studied


def find_low_bits(
    fit: Fit,
    data: Any,
    neighbour: Any,
    *,
    n_fits: int = 300,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> list[Finding]:
    """Look for noise whose low bits tell which value it hides.

    Noise that is computed in floating point and added to a value does not reach all numbers that it
    reaches from another value [1]_. An output is named if no two fits give the same number of it,
    so that it lies on no lattice that noise of this size would fill, and if one of two things shows
    that noise is added there: with the same seeds, both datasets give outputs at a constant
    distance; or small outputs have low bits with one dataset only.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns what is released: an array, or a fitted estimator.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. The second sign is seen
        best if the value behind the noise is 0 with one of them.
    n_fits : int, default=300
        Number of fits to each dataset, at least 20.
    n_jobs : int, default=None
        Processes or threads that fit, as in ``joblib.Parallel``.
    random_state : int, default=None
        Seed of the seeds.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Raises
    ------
    ValueError
        If `n_fits` is too small, or if `fit` returns no numbers.

    Notes
    -----
    **Privacy.** The findings are functions of both datasets: check with made-up data. An estimator
    that draws noise without the seed, and adds it to large values, passes without being safe. So
    does one that computes more from its noisy values.
    Noise that follows from the seed alone is named on a lattice, too, if its standard deviation has
    more than `n_fits` steps: then hardly any number comes twice.

    References
    ----------
    .. [1] I. Mironov (2012). "On significance of the least significant bits for differential
       privacy". CCS. :doi:`10.1145/2382196.2382264`

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import find_low_bits
    >>> def noisy_sum(data, seed):
    ...     return np.sum(data) + np.random.default_rng(seed).normal()
    >>> for finding in find_low_bits(noisy_sum, [1, 1], [1, 0], random_state=0):
    ...     print(finding)
    output: noise is added in floating point, and lies on no lattice
    >>> def rounded_sum(data, seed):
    ...     return np.round(16 * noisy_sum(data, seed)) / 16
    >>> find_low_bits(rounded_sum, [1, 1], [1, 0], random_state=0)
    []
    """
    _check_n_fits(n_fits)
    seeds = seeds_of(n_fits, random_state)
    both = numbers_of_fits(fit, (data, neighbour), (seeds, seeds), n_jobs=n_jobs)
    columns = zip(*(one[:, 1:].T for one in both), strict=True)
    found = [_all_differ(*pair) and (_is_shifted(*pair) or _bits_differ(*pair)) for pair in columns]
    what = "noise is added in floating point, and lies on no lattice"
    return _named(np.flatnonzero(found), what, fit, data)


def _all_differ(*samples: np.ndarray) -> bool:
    """Whether noise varies so finely that no number comes twice."""
    return all(np.isfinite(one).all() and len(np.unique(one)) == len(one) for one in samples)


def _is_shifted(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two samples differ by a constant, but for rounding."""
    largest = max(np.abs(first).max(), np.abs(second).max())
    return bool(np.ptp(first - second) <= _ROUNDING * np.spacing(largest) < np.ptp(first) / 16)


def _lowest_bits(numbers: np.ndarray) -> np.ndarray:
    """Return the exponent of the lowest bit of each number."""
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    return exponents - 53 + np.log2(np.maximum(whole & -whole, 1)).astype(int)


def _bits_differ(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether low bits of small outputs are set with one dataset, and never with the other one."""
    spread = min(first.std(), second.std())
    bits = [_lowest_bits(one[np.abs(one) < _SMALL * spread]) for one in (first, second)]
    if min(map(len, bits)) == 0:
        return False
    level = max(one.min() for one in bits)
    below = [int((one < level).sum()) for one in bits]
    table = [[low, len(one) - low] for low, one in zip(below, bits, strict=True)]
    return min(below) == 0 and fisher_exact(table).pvalue < _CHANCE


# ------------------------------
# What follows from data exactly.

_N_SEEDS = 4  # not studied
# What estimators without privacy keep. Not tuned.
_STATISTICS: dict[str, Callable[[np.ndarray], Any]] = {
    "the data": lambda X: X,
    "the first row": lambda X: X[0],
    "the sum of columns": lambda X: X.sum(axis=0),
    "the mean of columns": lambda X: X.mean(axis=0),
    "the standard deviation of columns": lambda X: X.std(axis=0),
    "the variance of columns": lambda X: X.var(axis=0),
    "the minimum of columns": lambda X: X.min(axis=0),
    "the maximum of columns": lambda X: X.max(axis=0),
    "the median of columns": lambda X: np.median(X, axis=0),
    "the sum": np.sum,
    "the mean": np.mean,
    "the minimum": np.min,
    "the maximum": np.max,
    "the largest norm of a row": lambda X: np.linalg.norm(X, axis=-1).max(),
    "the number of distinct values": lambda X: len(np.unique(X)),
    "the numbers of distinct values of columns": lambda X: [len(np.unique(x)) for x in X.T],
}


def find_data_dependent_attributes(
    fit: Fit,
    data: Any,
    neighbour: Any,
    *,
    random_state: int | None = None,
) -> list[Finding]:
    """Look for what a fit tells of its data without noise.

    Both datasets are fitted with several seeds. What is the same for all seeds has no noise, and
    must be the same for both datasets: each number of each attribute, private attributes and those
    of objects within included; shapes and dtypes; warnings, errors and printed text. Attributes
    that equal a statistic of the data to the last bit are named even if both datasets have the same
    one.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns a fitted estimator, or an array.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. They are compared with
        attributes if they are arrays, or tuples of arrays.
    random_state : int, default=None
        Seed of the seeds.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Notes
    -----
    **Privacy.** The findings are functions of both datasets: check with made-up data, of the same
    shape. What is told with too little noise is not found here, but by :func:`skdp.testing.audit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import find_data_dependent_attributes
    >>> from skdp.testing.mistakes import ExactAttribute
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> other = X.copy()
    >>> other[0] = 9
    >>> for finding in find_data_dependent_attributes(
    ...     lambda data, seed: ExactAttribute(random_state=seed).fit(data), X, other
    ... ):
    ...     print(finding)
    data_max_: differs between both datasets, whatever the seed; it is the maximum of columns
    """
    seeds = seeds_of(_N_SEEDS, random_state)
    first, second = ([_told(fit, one, seed) for seed in seeds] for one in (data, neighbour))
    statistics = [list(_statistics(one)) for one in (data, neighbour)]
    names = dict.fromkeys(name for told in (*first, *second) for name in told)
    return [
        Finding(name, what)
        for name in names
        for what in _faults(
            [[one.get(name) for one in told] for told in (first, second)], statistics
        )
    ]


def _told(fit: Fit, data: Any, seed: int) -> dict[str, Any]:
    """Fit, and return all that is told, by name."""

    def tell() -> dict[str, Any]:
        try:
            return dict(parts_of(fit(data, seed)))
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    told, (*warned, text) = said_by(tell)
    told |= {"warnings": "\n".join(warned), "printed text": text}
    return {name or "output": value for name, value in told.items()}


def _faults(values: list[list[Any]], statistics: list[list[tuple[str, Any]]]) -> Iterator[str]:
    """Say what is wrong with the values of one attribute, a list a dataset."""
    forms = [[_form(one) for one in told] for told in values]
    numbers = [[_flat(one) for one in told] for told in values]
    if _is_told_apart(*forms):
        yield f"is {forms[0][0]} with one dataset, and {forms[1][0]} with the other one"
        return
    if len({*forms[0], *forms[1]}) > 1:
        return
    fixed = [_fixed(one) for one in numbers]
    apart = fixed[0] & fixed[1] & ~_same(numbers[0][0], numbers[1][0])
    pairs = zip(*statistics, strict=False)
    exact = [
        name
        for (name, one), (_, other) in pairs
        if _is_equal(values[0][0], one) and _is_equal(values[1][0], other) and _tells(one, other)
    ]
    if apart.any():
        part = "" if apart.all() else f" in {apart.sum()} of {apart.size} numbers"
        is_exactly = f"; it is {exact[0]}" if exact else ""
        yield f"differs between both datasets{part}, whatever the seed{is_exactly}"
    elif exact:
        yield f"is {exact[0]}, to the last bit"


def _form(value: Any) -> str:
    """Describe the type, dtype and shape of a value."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{kind} of {value.dtype} of shape {value.shape}"
    return "missing" if value is None else kind


def _flat(value: Any) -> np.ndarray:
    return np.ravel(np.asarray(value))


def _is_told_apart(first: list[str], second: list[str]) -> bool:
    return len({*first}) == len({*second}) == 1 and first[0] != second[0]


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compare entries; what is not equal to itself, as NaN, equals its like."""
    return np.asarray((one == other) | ((one != one) & (other != other)))


def _fixed(values: list[np.ndarray]) -> np.ndarray:
    """Return which entries are the same for all seeds."""
    return np.logical_and.reduce([_same(values[0], one) for one in values])


def _statistics(data: Any) -> Iterator[tuple[str, Any]]:
    """Give statistics of each array of a dataset."""
    arrays = data if isinstance(data, tuple) else (data,)
    for number, one in enumerate(arrays):
        of_which = f", of array {number}" if len(arrays) > 1 else ""
        array = np.asarray(one)
        is_table = array.dtype.kind in "biuf" and array.ndim == 2 and array.size
        for name, statistic in _STATISTICS.items():
            yield name + of_which, np.asarray(statistic(array)) if is_table else None


def _is_equal(value: Any, statistic: Any) -> bool:
    is_equal = statistic is not None and np.shape(value) == np.shape(statistic)
    return bool(is_equal and np.array_equal(value, statistic))


def _tells(*statistics: np.ndarray) -> bool:
    """Whether equality with one of them tells more than with small whole numbers, by chance."""
    return any(np.any(one != np.round(one)) or np.ptp(one) > 0 for one in statistics)
