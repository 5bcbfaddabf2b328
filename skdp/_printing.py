"""Whether scikit-learn prints an estimator, or joblib caches its fit, judged by the call stack."""

import sys


class _Hidden:
    """Placeholder for a secret value where parameters are printed."""

    def __repr__(self) -> str:
        return "<given>"


HIDDEN = _Hidden()


def is_printing() -> bool:
    """Whether `get_params` was called by scikit-learn in order to print the parameters.

    scikit-learn prints what `get_params` returns, for estimators inside others, too, and calls no
    method of theirs for it. Only the call stack shows what the parameters are for.
    """
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_name in ("get_params", "_get_params"):
        frame = frame.f_back
    while frame and frame.f_globals.get("__name__", "").startswith("sklearn."):
        module, function = frame.f_globals["__name__"], frame.f_code.co_name
        if module == "sklearn.utils._pprint" or function == "_get_params_html":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def is_caching() -> bool:
    """Whether `__getstate__` was called by joblib to look up the cached result of a fit.

    joblib hashes data and parameters for that. Others that hash an estimator repeat no fit.
    """
    frame = sys._getframe(2)
    while frame.f_back:
        name, frame = frame.f_code.co_name, frame.f_back
        if name == "hash" and frame.f_globals.get("__name__") == "joblib.memory":
            return True
    return False
