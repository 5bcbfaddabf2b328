"""Mistakes that a few fits show: repeated noise, low bits, and exact functions of the data."""

import warnings
from multiprocessing import get_all_start_methods, get_context
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import fisher_exact, spearmanr

from skdp.testing import _audit as fits
from skdp.testing._audit import Fit, Part, columns_of_fits, parts_of
from skdp.testing._recording import messages_of

# Probability that all statistical tests together find something by chance.
_CHANCE = 1e-9  # not tuned


class Finding(NamedTuple):
    """One mistake that a check has found.

    Attributes
    ----------
    where : str
        The output, attribute or place with the mistake.
    what : str
        Description of the mistake.

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

# Seconds to wait for the answer of a forked process.
_PATIENCE = 300.0  # not tuned
_N_REPEATS = 3  # not studied
_BACKENDS = {"fits": "sequential", "threads": "threading", "processes": "loky"}


def find_repeated_noise(
    fit: Fit, data: Any, neighbour: Any, *, n_fits: int = 40, random_state: int | None = None
) -> list[Finding]:
    """Search for fits that draw the same noise: their difference is then a function of the data.

    Without a seed no two fits may be equal, whether they run one after the other, in two threads,
    in two processes with copies of `fit`, or in forks of this process. With the same seed, fits to
    different data must have different noise.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns everything released: an array, or a fitted estimator. A seed of
        None asks for fresh noise.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes.
    n_fits : int, default=40
        Number of seeds with which both datasets are fitted, at least 20.
    random_state : int, default=None
        Seed from which the seeds of the fits are drawn.

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
    columns = columns_of_fits(fit, data, neighbour, n_fits, random_state)
    runs = {
        f"two {places}": Parallel(2, backend)(delayed(_several)(fit, data) for _ in range(2))
        for places, backend in _BACKENDS.items()
    }
    if "fork" in get_all_start_methods():
        runs["two forks"] = _in_forks(fit, data)
    what = "the same output without a seed: noise is missing, or not fresh"
    found = [Finding(where, what) for where, two in runs.items() if all(map(np.array_equal, *two))]
    with warnings.catch_warnings(action="ignore"):
        # Constant outputs give warnings.
        chances = [spearmanr(*pair, alternative="greater").pvalue for pair in columns]
    shared = np.flatnonzero(np.array(chances) < _CHANCE / len(chances))
    return found + _named(shared, "the same seed gives other data the same noise", fit, data)


def _named(numbers: np.ndarray, what: str, fit: Fit, data: Any) -> list[Finding]:
    """Return a finding for each output that has one of the numbers with these indices."""
    outputs = fits.outputs_of(fit, data, 0)
    names = np.repeat([*outputs], [len(one) for one in outputs.values()])
    found = dict.fromkeys(map(str, names[numbers]))
    # Texts, which have the type uint64, have no noise.
    return [Finding(name, what) for name in found if outputs[name].dtype != np.uint64]


def _several(fit: Fit, data: Any) -> list[np.ndarray]:
    """Fit several times without a seed."""
    return [fits.numbers_of_fit(fit, data, None) for _ in range(_N_REPEATS)]


# The function that fits and the data, in a forked process.
_TASK: list[Any] = []


def _in_forks(fit: Fit, data: Any) -> list[list[np.ndarray]]:
    """Fit in two forks, which begin with the whole state of this process."""
    found = []
    for _ in range(2):
        # Python warns that a fork has none of the threads of this process.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            # The arguments of this call are not pickled, but those of `apply_async` would be.
            pool = get_context("fork").Pool(1, _TASK.extend, ([fit, data],))
        with pool:
            found.append(pool.apply_async(_fit_in_fork).get(_PATIENCE))
    return found


def _fit_in_fork() -> list[np.ndarray]:
    return _several(*_TASK)


# ------------------------------
# Low bits.

# Differences of outputs count as equal if they vary by at most this many units in the last place of
# the largest output.
_ROUNDING = 16  # not tuned
# An output whose size is below this many noise stds is small: it has low bits that larger outputs
# have lost by rounding.
_SMALL = 0.25  # not studied


def find_low_bits(
    fit: Fit, data: Any, neighbour: Any, *, n_fits: int = 300, random_state: int | None = None
) -> list[Finding]:
    """Search for noise whose low bits reveal the value behind it.

    If noise is added in floating point, some sums are possible for one value, and not for another
    [1]_. An output is named on two conditions. No two fits give the same number: on a lattice of
    suitable steps, some would. And one of two signs shows that noise is added: with the same seeds,
    outputs of both datasets differ by a constant, or only outputs of one dataset have certain low
    bits.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns what is released: an array, or a fitted estimator.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. The second sign is most
        visible if the value without noise is 0 for one of the datasets.
    n_fits : int, default=300
        Number of fits to each dataset, at least 20.
    random_state : int, default=None
        Seed from which the seeds of the fits are drawn.

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
    **Privacy.** The findings are functions of both datasets: check with made-up data. Two kinds of
    estimators pass without being safe: those that draw noise without the seed, and add it to large
    values, and those that transform their noisy values. Noise that follows from the seed alone is
    named even on a lattice, if its standard deviation exceeds `n_fits` steps: then hardly any
    number repeats.

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
    columns = columns_of_fits(fit, data, neighbour, n_fits, random_state)
    what = "noise is added in floating point, and lies on no lattice"
    return _named(np.flatnonzero([_is_plain(pair) for pair in columns]), what, fit, data)


def _is_plain(pair: np.ndarray) -> bool:
    """Return whether pairs of outputs show noise that was added in floating point.

    Outputs that repeat show nothing.
    """
    if not np.isfinite(pair).all() or any(len(np.unique(one)) < len(one) for one in pair):
        return False
    # Whether the outputs of both datasets differ by a constant, up to rounding.
    rounding = _ROUNDING * np.spacing(np.abs(pair).max())
    is_shifted = np.ptp(pair[0] - pair[1]) <= rounding < np.ptp(pair[0]) / 16
    return bool(is_shifted or _bits_differ(pair))


def _lowest_bits(numbers: np.ndarray) -> np.ndarray:
    """Return the exponent of the lowest bit of each number."""
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    # `whole & -whole` is the lowest bit of an integer.
    return exponents - 53 + np.log2(np.maximum(whole & -whole, 1)).astype(int)


def _bits_differ(pair: np.ndarray) -> bool:
    """Return whether small outputs of one dataset have low bits that those of the other lack."""
    limit = _SMALL * pair.std(axis=1).min()
    exponents = [_lowest_bits(outputs[np.abs(outputs) < limit]) for outputs in pair]
    # The lowest bit of all small outputs of one dataset; those of the other may be lower still.
    lowest = max((one.min() for one in exponents if len(one)), default=0)
    table = [[np.sum(one < lowest), np.sum(one >= lowest)] for one in exponents]
    return min(n_lower for n_lower, _ in table) == 0 and fisher_exact(table).pvalue < _CHANCE


# ------------------------------
# Exact functions of the data.

_N_SEEDS = 4  # not studied
# Statistics of columns, or of all numbers, that estimators without privacy often store.
_STATISTICS = np.sum, np.mean, np.std, np.var, np.min, np.max, np.median


def find_data_dependent_attributes(
    fit: Fit, data: Any, neighbour: Any, *, random_state: int | None = None
) -> list[Finding]:
    """Search for anything that a fit reveals of its data without noise.

    Both datasets are fitted with several seeds. Values that are the same for all seeds have no
    noise, and must be the same for both datasets, to the last bit: all that a pickle of the
    result contains, attributes that the pickle leaves out, closures of functions, and attributes of
    the class; types, shapes and orders; warnings, errors, printed text and log records. An object
    without a pickle is named, as it cannot be compared. An attribute that equals a statistic of
    the data is named even if the statistic is the same for both datasets.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)`` returns a fitted estimator, or an array.
    data, neighbour : object
        Two datasets that differ in one unit, in the form that `fit` takes. If a dataset, or the
        first entry of a tuple, is a table, attributes are compared with statistics of the table.
    random_state : int, default=None
        Seed from which the seeds of the fits are drawn.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Notes
    -----
    **Privacy.** The findings are functions of both datasets: check with made-up data, of the same
    shape. Too little noise is not found here, but by :func:`skdp.testing.audit`.

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
    data_max_: differs between both datasets, whatever the seed; it is the max of columns
    """
    seeds = fits.seeds_of(_N_SEEDS, random_state)
    of_data = [_observed(fit, data, seed) for seed in seeds]
    of_neighbour = [_observed(fit, neighbour, seed) for seed in seeds]
    first, second = _statistics(data), _statistics(neighbour)
    statistics = {name: [first[name], second.get(name)] for name in first}
    found = []
    for name in dict.fromkeys(name for outputs in of_data + of_neighbour for name in outputs):
        values = [[outputs.get(name) for outputs in side] for side in (of_data, of_neighbour)]
        if what := _fault(values, statistics):
            found.append(Finding(name, what))
    return found


def _observed(fit: Fit, data: Any, seed: int) -> dict[str, Part]:
    """Fit; return by name all that the fit reveals: its result, messages, errors and classes."""
    fits.check_fit(fit)
    texts: dict[str, Any] = {}

    def _fit() -> Any:
        try:
            return fit(data, seed)
        except Exception as error:
            texts["error"] = f"{type(error).__name__}: {error}"

    result, (*warned, text) = messages_of(_fit)
    of_classes = [fits.attributes_of_class(base) for base in type(result).__mro__[:-1]]
    texts |= {"warnings": "\n".join(warned), "printed text": text, "class": of_classes}
    parts = {**dict(parts_of(texts)), **dict(parts_of(result))}
    return {name or "output": part for name, part in parts.items()}


def _fault(values: list[list[Part | None]], statistics: dict[str, list[Any]]) -> str:
    """Describe the mistake in an output, from its values by dataset and seed; "" if none."""
    absent = Part("missing", np.empty(0))
    parts = [[part or absent for part in of_dataset] for of_dataset in values]
    if unreadable := [part.form for part in [*parts[0], *parts[1]] if part.numbers is None]:
        return fits.UNREADABLE.format(unreadable[0])
    forms, other_forms = ({part.form for part in of_dataset} for of_dataset in parts)
    if len(forms | other_forms) > 1:
        # A form that differs from seed to seed follows from noise.
        if len(forms) > 1 or len(other_forms) > 1:
            return ""
        return f"is {forms.pop()} with one dataset, and {other_forms.pop()} with the other one"
    # The axes are datasets, seeds, numbers of the output and, in `bits`, bytes of a number.
    numbers = np.array([[np.ravel(part.numbers) for part in of_dataset] for of_dataset in parts])
    bits = np.ascontiguousarray(numbers)[..., None].view(np.uint8)
    has_no_noise = (bits == bits[:, :1]).all(axis=(0, 1, 3))
    leaks = has_no_noise & (bits[0, 0] != bits[1, 0]).any(axis=1)
    known = statistics if numbers.dtype.kind in "biuf" else {}
    firsts = [of_dataset[0].numbers for of_dataset in parts]
    equal = [name for name, pair in known.items() if all(map(np.array_equal, firsts, pair))]
    # A constant whole number may equal a statistic by chance.
    is_distinctive = equal and (np.any(numbers != np.round(numbers)) or np.ptp(numbers) > 0)
    if leaks.any():
        where = "" if leaks.all() else f" in {leaks.sum()} of {leaks.size} numbers"
        is_exactly = f"; it is {equal[0]}" if is_distinctive else ""
        return f"differs between both datasets{where}, whatever the seed{is_exactly}"
    return f"is {equal[0]}, to the last bit" if is_distinctive else ""


def _statistics(data: Any) -> dict[str, Any]:
    """Return statistics of a dataset, or of its first array, if that is a table."""
    X = np.asarray(data[0] if isinstance(data, tuple) else data)
    if X.dtype.kind not in "biuf" or X.ndim != 2 or not X.size:
        return {}
    found = {"the data": X, "the first row": X[0]}
    for of in _STATISTICS:
        found[f"the {of.__name__} of columns"] = of(X, axis=0)
        found[f"the {of.__name__} of all"] = of(X)
    found["the largest norm of a row"] = np.linalg.norm(X, axis=1).max()
    found["the numbers of distinct values"] = [len(np.unique(x)) for x in X.T]
    return found
