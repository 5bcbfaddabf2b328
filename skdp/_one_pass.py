"""Fits whose rows arrive in several calls of `partial_fit`: sums stay secret until one release."""

import os
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import _fit_context

from skdp import _validation as checks
from skdp._estimator import PrivateEstimator, parameters_by_value, restored_on_error
from skdp.data.people import Agreed
from skdp.data.reduce import Kernel, Trees, joined_trees, rounding_of_depth, with_value
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.exceptions import warn_of_privacy, warnings_together
from skdp.ledger._database import checked_key, take_once, write_once
from skdp.privacy.noise import digest_of

# Number of the file format; files with another number are refused.
_FORMAT = 2  # not tuned


@dataclass(eq=False)
class GatheredRows(Rows):  # numpydoc ignore=PR01
    """A view in place of the rows of all calls: it has their `moment` and other sums, no rows."""

    moment: Any = None

    def map_sum(self, kernel: Kernel, size: int) -> Any:
        """Return the moment, the only sum of a fit that is not in `cache`."""
        return self.moment.copy()


class OpenSums(NamedTuple):
    """Exact sums, as secret as the rows, from the first `partial_fit` to their release."""

    parameters: bytes  # hash of the parameters on which the sums depend
    spec: Any  # public facts of the first rows
    trees: Trees  # sums of the calls, added in the order in which a fit adds sums of parts
    depth: int = 0  # longest chain of additions within a call
    n_calls: int = 0
    n_rows: int = 0
    digest: bytes = b""  # hash of the rows, if there is a seed


def _added(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    return tuple(map(np.add, first, second))


class _OfOnePass:
    """Method that an estimator has if `_check_one_pass` accepts its parameters.

    Unlike with `available_if` of scikit-learn, the `AttributeError` itself says what to pass.
    """

    def __init__(self, method: Any) -> None:
        self._method = method

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self._method
        try:
            estimator._check_one_pass()
        except ValueError as error:
            text = f"This {owner.__name__} has no partial_fit: {error}"
        else:
            return MethodType(self._method, estimator)
        raise AttributeError(text)


class OnePassMixin(PrivateEstimator):
    """Base of estimators that can take rows in several calls, if bounds are public.

    Before `finalize` nothing is published or spent: the estimator has exact sums, and is neither
    pickled nor copied.
    """

    _open_sums: OpenSums | None = None

    @_OfOnePass
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows of further people to the sums that `finalize` will release. Nothing is spent.

        A person may have a row in one call only. Until `finalize` the sums in memory are as secret
        as the rows; the estimator is neither pickled nor copied, and a clone has no sums. `fit`
        drops the sums, and a fitted estimator starts with new sums.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Further rows to protect, as for `fit`. If an error that is not listed below ends the
            call, the rows may have been added: do not repeat the call.
        y : None
            Ignored.

        Returns
        -------
        Self
            The estimator, which is not fitted yet.

        Raises
        ------
        AttributeError
            If the parameters need more than one reading of the rows.
        ValueError
            If X is not acceptable, or a parameter has changed since the first call. Then nothing
            has been added.
        """
        with restored_on_error(self, lambda: None):
            X, _ = checks.in_parts(X)
            before = self._open_sums
            if before is not None:
                self._check_unchanged(before)
                checks.check_features(X, self)
            else:
                for name in [name for name in vars(self) if name.endswith("_")]:
                    delattr(self, name)
            spec, (rows, digest) = self._validate(X, None)
            sums = self._sums_of(spec, rows)
            of_rows = digest() if self._is_seeded else None
            before = before or OpenSums(self._hash_of_parameters(), spec, ())
            self._open_sums = before._replace(
                trees=with_value(before.trees, sums, _added),
                depth=max(before.depth, rows.depth),
                n_calls=before.n_calls + 1,
                n_rows=before.n_rows + rows.n_rows,
                digest=digest_of(before.digest, rows.n_rows, of_rows),
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def finalize(self) -> Self:
        """Make the releases of a `fit` of all rows together, spending the whole budget.

        Returns
        -------
        Self
            The fitted estimator. A further call returns it as it is.

        Raises
        ------
        ValueError
            If `partial_fit` has had no rows, or a parameter has changed since. Nothing has been
            spent then.
        """
        if hasattr(self, "privacy_spent_"):
            return self
        stored = self._rows_so_far()
        self._check_unchanged(stored)
        with warnings_together(type(self).__name__):
            with restored_on_error(self, lambda: None):
                n_rows, n_features = stored.n_rows, self.n_features_in_
                depth = stored.depth + (stored.n_calls - 1).bit_length()
                rounding = rounding_of_depth(depth, n_rows)
                facts: dict[str, Any] = {"n_units": n_rows, "rounding": rounding}
                if hasattr(stored.spec, "shape"):
                    facts["shape"] = n_rows, n_features
                spec, sums = replace(stored.spec, **facts), joined_trees(stored.trees, _added)
                # A row of zeros stands for the rows, which are not stored.
                source, agreed = as_source(np.zeros((1, n_features))), Agreed(n_rows, depth)
                rows = GatheredRows(source, agreed=agreed, **self._known_sums(spec, sums))
                released = self._release(spec, (rows, lambda: stored.digest), warn_of_privacy)
                warnings = self._keep(*released)
            warn_of_privacy(*warnings)
        return self

    def checkpoint(self, path: str | os.PathLike[str], key: bytes) -> None:
        """Write the sums to a new encrypted file, for `resume`, and delete them here.

        Parameters
        ----------
        path : str or path-like
            Where to write. No file may exist there. Only its user may read the file.
        key : bytes of length 32
            Secret by which the file is encrypted, such as ``secrets.token_bytes(32)``. Keep it in
            another place than the file: file and key together are as secret as the rows.

        Raises
        ------
        ValueError
            If the key is not bytes of length 32, or there are no rows. Nothing is written then.
        OSError
            If the file exists or cannot be written.
        """
        checked_key(key)
        sums, state = self._rows_so_far(), checks.without_secrets(super().__getstate__())
        del state["_open_sums"]
        let_go = partial(delattr, self, "_open_sums")
        write_once(path, self._kind_of_file(), key, (sums, state), let_go)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], key: bytes) -> Self:
        """Load the sums that `checkpoint` wrote to a file; each file can be resumed once.

        Unpickling runs code that anybody with the key may have written to the file.

        Parameters
        ----------
        path : str or path-like
            The file. Delete it afterwards, and all copies of it.
        key : bytes of length 32
            The key of `checkpoint`.

        Returns
        -------
        Self
            The estimator with all parameters except seed and ledger. Set these by `set_params`
            before `partial_fit` or `finalize`, which otherwise refuse to go on.

        Raises
        ------
        ValueError
            If the file was resumed before, is incomplete, damaged, or from another class or
            version, or the key is a different one.
        """
        sums, attributes = take_once(path, cls._kind_of_file(), key)
        made = cls.__new__(cls)
        made.__setstate__(attributes)
        made._open_sums = sums
        return made

    @classmethod
    def _kind_of_file(cls) -> str:
        return f"{cls.__name__}, version {_FORMAT}"

    def _rows_so_far(self) -> OpenSums:
        """Return the stored sums; raise an error if there are none."""
        if self._open_sums is None:
            raise ValueError(f"This {type(self).__name__} has no rows: call partial_fit first.")
        return self._open_sums

    def _keep(self, *solved: Any) -> list[str]:
        """Set the fitted attributes, and delete the sums."""
        self.__dict__.pop("_open_sums", None)
        return super()._keep(*solved)

    def _hash_of_parameters(self) -> bytes:
        """Hash the parameters on which the sums depend."""
        return digest_of(parameters_by_value(self), self._is_seeded)

    def _check_unchanged(self, sums: OpenSums) -> None:
        if sums.parameters != self._hash_of_parameters():
            raise ValueError(
                f"A parameter of {type(self).__name__} has changed since the first partial_fit, "
                "whose sums depend on it: set it back, or start again with sklearn.base.clone(...)."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_spent_")

    def __getstate__(self) -> dict[str, Any]:
        if self._open_sums is not None:
            raise TypeError(
                f"A {type(self).__name__} between partial_fit and finalize is neither copied nor "
                "pickled: it has exact sums of private rows. Call finalize first, or checkpoint, "
                "which writes an encrypted file; sklearn.base.clone(...) has no rows."
            )
        return super().__getstate__()

    def _check_one_pass(self) -> None:
        """Refuse parameters with which a sum would depend on earlier releases."""
        raise NotImplementedError

    def _sums_of(self, spec: Any, rows: Any) -> tuple[np.ndarray, ...]:
        """Compute all sums from which a fit makes its releases."""
        raise NotImplementedError

    def _known_sums(self, spec: Any, sums: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """Return the sums of `_sums_of` as fields of `GatheredRows`."""
        return {"moment": sums[0]}
