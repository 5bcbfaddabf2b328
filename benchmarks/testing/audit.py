"""What checks from outside find: bounds of audits, false claims, low bits, planted mistakes. Run

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.testing.audit           # some minutes
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.testing.audit --write   # audit.md beside it

Mechanisms are right unless it is said what is wrong with them.
"""

import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.datasets import load_digits

from benchmarks.report import parser_for, publish, table
from skdp import DPPCA
from skdp.privacy.gaussian_dp import epsilon_at
from skdp.testing import (
    audit,
    find_data_dependent_attributes,
    find_low_bits,
    find_repeated_noise,
    mistakes,
)

Fit = Callable[[Any, Any], Any]

N_RUNS, N_FITS = 200, 2000
MUS, SIZES = (0.5, 1.0, 2.0), (1, 10, 100)
# Audits at a high confidence: of these sizes, by as many runs, with fewer fits.
N_STRICT, STRICT, FITS_OF_STRICT = 1000, 0.999, 400
N_REFUTED = N_BITS = 20
TOO_LITTLE = 0.7
DELTA = 1e-6
ROWS = np.random.default_rng(0).normal(size=(20, 3)) / 10
# Two rows as far apart as they may be, one of which is also long.
PAIR = [np.vstack([row, ROWS]) for row in ((9.0, 9.5, 0.5), (-0.75, -0.625, 0.0))]
OPPOSITE = [np.vstack([row, np.zeros((3, 3))]) for row in ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0))]
CHECKS: dict[str, Callable[..., Any]] = {
    "audit": lambda *pair: audit(*pair, confidence=STRICT, random_state=0).mu > 1,
    "find_repeated_noise": partial(find_repeated_noise, random_state=0),
    "find_low_bits": partial(find_low_bits, random_state=0),
    "find_data_dependent_attributes": partial(find_data_dependent_attributes, random_state=0),
}
TEXT = """# What checks from outside find

Made by `python -m benchmarks.testing.audit --write` on two virtual cores that share one.

## Audits of Gaussian noise

{runs} audits of {fits:,} fits to each dataset, at confidence 95%. All of as many outputs move, by
the same. Bounds as parts of the true mu; the medians are to be at least .45, .7 and .8, and at most
16 of 200 bounds may lie above the truth:

{bounds}

Of many outputs, the direction in which they move is learned from half of the fits. The best that
is known of d directions alike are the means of n fits to each dataset, whose difference has a
cosine of about sqrt(r / (1 + r)) with it, r = mu^2 n / (2 d - 2): .75, .91 and .98 for n = 1,000
and d = 100. The guess then sees so much of mu, and proves some .11 less: 1.96 sqrt(pi / n), as it
tests the mean of both errors at 97.5%. That allows medians of some .53, .80 and .92.

With {part:g} of the noise that mu = 1 needs, {refuted} of {n_refuted} audits refute it.

## False claims at confidence {strict:.1%}

Audits of right mechanisms, {strict_fits} fits to each dataset. A claim is false if it bounds mu or
epsilon above the truth; at most 4 of 1,000 may be:

{false}

## Low bits

Runs of {n_bits} in which `find_low_bits` says something:

{bits}

A release with noise that is drawn without the seed, and added to a large value, is not found.

## `DPPCA` on digits

{fits:,} fits to each of two datasets that differ in a row, with two processes; at most 120 seconds
are asked on two cores, which is 240 seconds of processor time, of all processes together:

{digits}

## Planted mistakes

What each check says of the estimators in `skdp.testing.mistakes`:

{planted}"""


def gaussian(data: float, seed: Any, *, mu: float, size: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=size)
    return mu * data / np.sqrt(size) + noise


def noisy_mean(data: np.ndarray, seed: Any, *, mu: float) -> np.ndarray:
    return mistakes.NoisyMean(mu, random_state=seed).fit(data).mean_


def pca(data: np.ndarray, _: Any, epsilon: float = 1.0) -> DPPCA:
    return DPPCA(5, mean_norm=64, row_norm=40, epsilon=epsilon).fit(data)


def several(run: Callable[[int], Any], n_runs: int) -> list[Any]:
    return list(Parallel(2)(delayed(run)(seed) for seed in range(n_runs)))


def audited(seed: int, fit: Fit, pair: Any = (0.0, 1.0), **more: Any) -> Any:
    return audit(fit, *pair, random_state=seed, **more)


def bounds() -> str:
    lines = []
    for size in SIZES:
        for mu in MUS:
            fit = partial(gaussian, mu=mu, size=size)
            found = several(partial(audited, fit=fit, n_fits=N_FITS), N_RUNS)
            parts = np.array([one.mu for one in found]) / mu
            quantiles = (f"{one:.3f}" for one in np.quantile(parts, (0, 0.5, 1)))
            lines.append((size, mu, *quantiles, f"{np.sum(parts > 1)} of {N_RUNS}"))
            print(lines[-1], flush=True)
    return table(["outputs", "mu", "least", "median", "largest", "above the truth"], lines)


def refuted() -> int:
    fit = partial(gaussian, mu=1 / TOO_LITTLE, size=1)
    found = several(partial(audited, fit=fit, n_fits=N_FITS), N_REFUTED)
    return sum(one.mu > 1 for one in found)


def false_claims() -> str:
    fits = {f"Gaussian, {n} outputs": (partial(gaussian, size=n), (0.0, 1.0)) for n in SIZES[:2]}
    fits["`NoisyMean`"] = noisy_mean, OPPOSITE
    lines = []
    for name, (fit, pair) in fits.items():
        for mu in (1.0, 4.0):
            how = {"n_fits": FITS_OF_STRICT, "confidence": STRICT, "delta": DELTA, "pair": pair}
            found = several(partial(audited, fit=partial(fit, mu=mu), **how), N_STRICT)
            limit = epsilon_at(mu, DELTA)
            false = [one.mu > mu or one.epsilon > limit for one in found]
            lines.append((name, mu, f"{sum(false)} of {N_STRICT:,}"))
            print(lines[-1], flush=True)
    return table(["mechanism", "mu", "false claims"], lines)


def low_bits() -> str:
    X = load_digits().data
    X = [X, np.vstack([0 * X[:1], X[1:]])]
    sums = {f"{a:g} or {b:g}": (a, b) for a, b in ((0.0, 1.0), (37.25, 36.5), (1e6, 1e6 + 1))}
    cases: dict[str, tuple[Fit, Any]] = {
        f"plain noise on {name}": (partial(gaussian, mu=1.0, size=1), pair)
        for name, pair in sums.items()
    }
    cases["plain noise of the global generator on 37.25 or 36.5"] = of_the_process, (37.25, 36.5)
    cases["plain noise on 0 or 1, without the seed"] = unseeded, (0.0, 1.0)
    cases["plain noise on 37.25 or 36.5, without the seed"] = unseeded, (37.25, 36.5)
    cases["`NoisyMean`"] = partial(noisy_mean, mu=1.0), PAIR
    cases["`DPPCA` on digits, with a seed"] = seeded_pca, X
    cases["`DPPCA` on digits, without"] = pca, X
    lines = []
    for name, (fit, pair) in cases.items():
        found = several(partial(bits_found, fit=fit, pair=pair), N_BITS)
        lines.append((name, f"{sum(found)} of {N_BITS}"))
        print(lines[-1], flush=True)
    return table(["release", "found"], lines)


def of_the_process(data: float, _: Any) -> float:
    return data + np.random.normal()  # noqa: NPY002


def unseeded(data: float, _: Any) -> np.ndarray:
    return gaussian(data, None, mu=1.0, size=1)


def seeded_pca(data: np.ndarray, seed: Any) -> DPPCA:
    return DPPCA(5, mean_norm=64, row_norm=40, random_state=seed).fit(data)


def bits_found(seed: int, fit: Fit, pair: Any) -> bool:
    return bool(find_low_bits(fit, *pair, random_state=seed))


def digits() -> str:
    """Audit with a row that is as far along one direction as it counts, or on the other side."""
    X = load_digits().data
    pair = [np.vstack([sign * np.full(64, 8.0), X[1:]]) for sign in (1, -1)]
    lines = []
    for epsilon in (1.0, 8.0, 64.0):
        start = processor_seconds()
        with parallel_config(n_jobs=2):
            found = audit(partial(pca, epsilon=epsilon), *pair, n_fits=N_FITS, random_state=0)
        seconds = processor_seconds() - start
        claim = pca(X, None, epsilon).privacy_spent_
        numbers = claim.epsilon, found.epsilon, claim.mu, found.mu
        lines.append((*(f"{one:.3g}" for one in numbers), f"{seconds:.0f}"))
        print(lines[-1], flush=True)
    return table(["epsilon", "proved", "mu", "proved", "seconds"], lines)


def processor_seconds() -> float:
    """Sum what this process and those that it has started have taken, which end now."""
    get_reusable_executor().shutdown(wait=True)
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def planted() -> str:
    lines = []
    for kind in (mistakes.NoisyMean, *mistakes.MISTAKES):

        def fit(data: np.ndarray, seed: Any, kind: Any = kind) -> Any:
            return kind(random_state=seed).fit(data)

        found = [bool(check(fit, *PAIR)) for check in CHECKS.values()]
        lines.append((f"`{kind.__name__}`", *("found" if one else "" for one in found)))
        print(lines[-1], flush=True)
    return table(["mistake", *(f"`{name}`" for name in CHECKS)], lines)


def report() -> str:
    return TEXT.format(
        runs=N_RUNS,
        fits=N_FITS,
        bounds=bounds(),
        part=TOO_LITTLE,
        refuted=refuted(),
        n_refuted=N_REFUTED,
        strict=STRICT,
        strict_fits=FITS_OF_STRICT,
        false=false_claims(),
        n_bits=N_BITS,
        bits=low_bits(),
        digits=digits(),
        planted=planted(),
    )


def main() -> None:
    """Print the tables, or write them."""
    asked = parser_for(__doc__, write="write audit.md").parse_args()
    publish(report(), __file__, write=asked.write)


if __name__ == "__main__":
    main()
