"""Who asks for parameters: printed forms, which hide seeds and ledgers, and caches of fits."""

import sys

__all__ = ["HIDDEN", "is_caching", "is_printing"]


class _Hidden:
    """Stands for a value where parameters are printed."""

    def __repr__(self) -> str:
        return "<given>"


HIDDEN = _Hidden()


def is_printing() -> bool:
    """Tell whether scikit-learn asks for the parameters in order to print them.

    It prints what `get_params` returns, also of an estimator inside another one, and never asks
    that one for a printed form. So who asks is all there is to tell by.
    """
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_name == "get_params":
        frame = frame.f_back
    while frame and frame.f_globals.get("__name__", "").startswith("sklearn."):
        module, function = frame.f_globals["__name__"], frame.f_code.co_name
        if module == "sklearn.utils._pprint" or function == "_get_params_html":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def is_caching() -> bool:
    """Tell whether joblib asks for the state in order to find a result that it has kept.

    Its hash is that of data and parameters. Nobody else who takes it repeats a fit.
    """
    frame = sys._getframe(2)
    while frame.f_back:
        name, frame = frame.f_code.co_name, frame.f_back
        if name == "hash" and frame.f_globals.get("__name__") == "joblib.memory":
            return True
    return False
