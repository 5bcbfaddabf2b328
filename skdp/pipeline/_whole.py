"""What estimators have in common that spend one budget on the fits of several steps."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sklearn.utils.validation import _num_samples

from skdp._checks import warnings_for_seed
from skdp._estimator import Watched, warnings_for_delta
from skdp.exceptions import warn_of_privacy
from skdp.linear_model._logistic_fit import LABELS_BECOME_PUBLIC
from skdp.pipeline._delegation import DelegatesMixin
from skdp.pipeline._fitting import FEATURE_ATTRIBUTES, Search, warnings_for_fits
from skdp.privacy import PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import plain

# By how much, relatively, rounding may let the sum of what was spent exceed the whole.
_ROUNDING = 1e-9  # not tuned


class SpendsWhole(Watched, DelegatesMixin):
    """Spends its whole budget on fits of several steps, and charges a ledger once."""

    epsilon: float
    delta: float
    ledger: Any

    def _cost(self) -> PrivacyCost:
        return PrivacyCost(float(plain(self.epsilon)), float(plain(self.delta)))

    def _begin(self, search: Search) -> PrivacySpent:
        """Give the warnings that follow from public facts; let the first fit charge the whole.

        Return the record of the whole, without its releases.
        """
        cost, n_rows = search.split.cost, _num_samples(search.X)
        warnings = warnings_for_fits(search)
        if search.lack_classes:
            warn_of_privacy(LABELS_BECOME_PUBLIC)
        if cost.is_private:
            warn_of_privacy(*warnings_for_seed(self.random_state))
            warn_of_privacy(*warnings_for_delta(cost, "rows", n_rows), *warnings)
        plan = search.planned(cost, ())
        whole = replace(PrivacyBudget.of(plan, NoiseSource(search.seed)).spent(), mu=cost.mu)
        if self.ledger is not None:
            name = f"{type(self).__name__}.fit, {n_rows} {whole.unit}s"
            charge = self.ledger.charge
            # Stands for the ledger of the first fit, which would charge its own part.
            search.ledger = SimpleNamespace(charge=lambda part, what: charge(whole, what=name))
        return whole

    def _set_features(self, model: Any) -> None:
        for name in FEATURE_ATTRIBUTES:
            # An earlier fit may have set what this one does not.
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))


def total(whole: PrivacySpent, records: Sequence[PrivacySpent]) -> PrivacySpent:
    """Return the record of the whole, with its releases."""
    # Steps of one pipeline get the same rows, and a record is a row with its response.
    composed = records[0].compose(*records[1:], same_unit=True)
    is_over = composed.mu > whole.mu * (1 + _ROUNDING)
    if is_over or composed.delta_tail > whole.delta_tail * (1 + _ROUNDING):
        raise RuntimeError(f"All fits have spent mu={composed.mu}, and were given {whole.mu}.")
    return replace(
        composed,
        epsilon=whole.epsilon,
        delta=whole.delta,
        mu=min(composed.mu, whole.mu),
        enforced=composed.enforced and whole.enforced,
        delta_tail=whole.delta_tail,
    )


def stamped(model: Any, search: Search, spent: PrivacySpent, ledger: Any) -> list[str]:
    """Give a model and its private steps the record of the whole; return their warnings.

    Where candidates share a fit of a step and differ in what they make of it, the warnings follow
    from the choice, and are left out.
    """
    model.privacy_spent_ = spent
    warnings = []
    for number, step in enumerate(search.steps):
        if step.is_private:
            part = search.fitted[id(model)][number]
            part.privacy_spent_ = spent
            # Another fit of the part costs what its parameters say. The seed, which would let
            # anybody subtract the noise, is not kept.
            asked = {name: getattr(step.estimator, name) for name in ("epsilon", "delta")}
            if step.name in search.lack_classes:
                asked["classes"] = None
            part.set_params(**asked, ledger=ledger, random_state=None)
            if not search.chooses_within(number):
                warnings += search.warnings.get(id(part), [])
    return warnings
