"""Hand models over: as estimators of scikit-learn with the same predictions, with model cards."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from platform import python_version
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction import FeatureHasher
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import carried, carrying
from skdp.covariance import DPCovariance
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition.streams.reports import REPORT
from skdp.linear_model import DPLinearRegression, DPLogisticRegression
from skdp.model_selection import DPGridSearch, DPRandomizedSearch, PrivacyReport, privacy_spent
from skdp.model_selection._report import learned_without_privacy
from skdp.pipeline import DPPipeline
from skdp.pipeline._rules import instead_of, is_stateless, parts_of, private_steps
from skdp.pipeline._run import FEATURE_ATTRIBUTES
from skdp.preprocessing import DPStandardScaler
from skdp.privacy import gaussian_dp
from skdp.privacy.releases import PrivacySpent, cautions
from skdp.units import ResolvedUnit

__all__ = ["ModelCard", "model_card", "to_sklearn"]


def to_sklearn(estimator: Any) -> Any:
    """Return an estimator of scikit-learn that predicts and transforms like a fitted one of skdp.

    The result, called the twin, contains released values and public facts. It can be loaded, and
    converted to other formats, without skdp, unless functions in its public steps are of skdp.

    Parameters
    ----------
    estimator : estimator
        A fitted :class:`DPPCA`, :class:`DPTruncatedSVD`, :class:`DPLinearRegression`,
        :class:`DPLogisticRegression`, :class:`DPCovariance` or :class:`DPStandardScaler`; a
        :class:`DPPipeline`, or a pipeline or column transformer of scikit-learn, of these and of
        steps that learn nothing or are frozen; or a search of skdp, which stands for its best
        estimator. It is not changed.

    Returns
    -------
    estimator
        A fitted ``PCA``, ``TruncatedSVD``, ``LinearRegression``, ``LogisticRegression``,
        ``EmpiricalCovariance``, ``StandardScaler`` or ``Pipeline``, with equal `transform`,
        `predict`, `predict_proba` and `decision_function`, up to rounding; except that a twin does
        not clip the scores of a classifier to `score_bounds_` before it computes probabilities.

    Raises
    ------
    NotFittedError
        If the estimator has not been fitted.
    TypeError
        If scikit-learn has no estimator for a class, or a step may have learned without privacy:
        :func:`privacy_spent` names it.
    ValueError
        If scikit-learn has no estimator that transforms rows in the same way.

    See Also
    --------
    model_card : What to publish beside the model.
    privacy_spent : Whether all steps are private, and what they cost together.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: the twin follows from released values and
    public parameters. Random states and ledgers are not copied. The twin carries the record as text
    in `privacy_record_`, where :func:`privacy_spent` and :func:`model_card` read it until the twin
    is fitted again or changed. Frozen steps are copied: the caller has made sure that they were
    fitted to public rows.

    Where skdp clips, fills gaps or builds on a prior, the twin is a ``Pipeline`` with further
    steps. For a `DPStandardScaler` that clips, a ``MinMaxScaler(clip=True)`` follows the scaler;
    such a scaler without centering has no twin, and is refused. For a scaler that fills gaps, a
    ``SimpleImputer`` comes first. For a `DPLinearRegression` that clips features, two scalers come
    first: one clips, the other maps rows back to the units of the data. These scalers take dense
    rows only, and in the twin the steps before them make rows dense. For a regression with a prior
    and a weak signal, a ``FeatureUnion`` passes on the rows beside the predictions of the prior:
    this twin takes dense rows only, also from columns and encoders before it.

    With ``whiten=True``, `explained_variance_` is at least `noise_variance_`, as the coordinates
    are divided by the root of `explained_variance_`. Names of output columns begin with ``pca`` in
    place of ``dppca``. Units that divide rows before they are projected, such as
    :class:`skdp.units.Interaction`, are refused.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPLogisticRegression, DPStandardScaler, make_dp_pipeline, to_sklearn
    >>> X, y = load_digits(return_X_y=True)
    >>> scaler, classifier = DPStandardScaler(bounds=(0, 16)), DPLogisticRegression(classes=[0, 1])
    >>> model = make_dp_pipeline(scaler, classifier, epsilon=2.0).fit(X, y > 4)
    >>> twin = to_sklearn(model)
    >>> twin[-1]
    LogisticRegression()
    >>> bool((twin.predict(X) == model.predict(X)).all())
    True
    """
    twin = _twin_of(estimator)
    if complaints := learned_without_privacy(estimator):
        raise TypeError(f"The twin would reveal what was learned without privacy: {complaints[0]}.")
    return twin


def _twin_of(model: Any, *, is_public: bool = False) -> Any:
    """Return the twin of a model or part; `is_public` parts were fitted to public rows."""
    kind = type(model)
    if isinstance(model, str) or model is None:
        return model
    record, *_ = carried(model) or (None,)
    if record is not None:
        # A model of scikit-learn that was made of a release, and has not been changed.
        return deepcopy(model)
    if kind in _TWINS:
        check_is_fitted(model)
        return carrying(_TWINS[kind](model), model)
    if kind is FrozenEstimator:
        return FrozenEstimator(_twin_of(model.estimator, is_public=True))
    if kind is Pipeline:
        return _pipeline_of(model.steps, is_public=is_public)
    if (fitted := parts_of(model, is_fitted=True)) is not None:
        twins = {name: _twin_of(part, is_public=is_public) for name, part in fitted}
        both = [*(parts_of(model) or ()), *fitted]
        # With this memo, deepcopy replaces each part by its twin, and drops parts that were not
        # fitted, as they had no columns.
        memo = {id(one): twins.get(name, "drop") for name, one in both if not isinstance(one, str)}
        return deepcopy(model, memo)
    if is_stateless(model) or (is_public and not private_steps(model)):
        return deepcopy(model)
    raise TypeError(_refusal(model))


def _refusal(model: Any) -> str:
    """Return why scikit-learn has no twin of a model, and what to hand over instead."""
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        return f"{name} keeps scores: pass its best_estimator_ to to_sklearn."
    if type(model).__module__.startswith("skdp.") or private_steps(model):
        twins = ", ".join(kind.__name__ for kind in _TWINS)
        return (
            f"{name} has no twin in scikit-learn, only {twins} have. Hand over its released "
            "attributes as arrays, or a pickle for those who have skdp."
        )
    return (
        f"{name} may have learned without privacy, and would be handed over with what it learned: "
        f"use {instead_of(model)}, or a FrozenEstimator that was fitted to public rows."
    )


# ------------------------------
# The twin of each class.


_OUTPUT = "_sklearn_output_config"  # the attribute that set_output sets


def _copied(model: Any, twin: Any, *names: str) -> Any:
    """Copy attributes to a twin: those with these names, and those about features and output."""
    known = {*FEATURE_ATTRIBUTES, _OUTPUT} & getattr(model, "__dict__", {}).keys()
    for name in (*names, *known):
        setattr(twin, name, deepcopy(getattr(model, name)))
    return twin


# Released attributes that PCA and TruncatedSVD of scikit-learn have, too.
_VARIANCES = ("explained_variance_", "explained_variance_ratio_", "singular_values_")


def _components(model: Any, twin: Any, *names: str) -> Any:
    """Copy components, variances and named attributes to a twin; refuse units that divide rows."""
    if type(model._unit).normalize is not ResolvedUnit.normalize:
        raise ValueError(
            f"{type(model).__name__} with privacy_unit={model.privacy_unit!r} divides each row by "
            "the root of its sum, which no twin does. Hand over components_ as an array, and "
            "divide rows so before they are multiplied by it."
        )
    return _copied(model, twin, "components_", *names, *_VARIANCES)


def _pca(model: DPPCA) -> PCA:
    """Return a twin that projects, and perhaps whitens, rows as the model does."""
    twin = PCA(n_components=model.n_components_, whiten=model.whiten)
    _components(model, twin, "mean_", "noise_variance_", "n_components_", "n_samples_")
    if model.whiten:
        twin.explained_variance_ = model._whitening_stds() ** 2
    return twin


def _linear_regression(model: DPLinearRegression) -> Any:
    """Return a twin that clips rows as the fit does, and adds the predictions of a prior."""
    twin = LinearRegression(fit_intercept=model.fit_intercept)
    _copied(model, twin, "coef_")
    # scikit-learn sets a numpy.float64, which converters reshape.
    twin.intercept_ = np.float64(model.intercept_)
    steps = {}
    if model.feature_bounds_ is not None:
        steps = _clip_between(model, *model.feature_bounds_.astype(np.float64))
    if (prior_coef := model._whole) is not None:
        # The prior predicts from rows that are not clipped: its predictions are a further feature.
        product = TruncatedSVD(1)  # it multiplies rows by the coefficients of the prior
        product.components_ = prior_coef[np.newaxis]
        ends = _clip_between(None, *np.array(model._ends)[:, np.newaxis])
        rows = _steps(steps) if steps else FunctionTransformer()
        both = [("rows", rows), ("prior", _steps({"predictions": product, **ends}))]
        steps = {"both": FeatureUnion(both)}
        twin.coef_ = np.append(model.coef_ - prior_coef, 1.0)
        twin.n_features_in_ = len(twin.coef_)
    return _steps({**steps, "predict": twin})


def _standard_scaler(model: DPStandardScaler) -> Any:
    """Return a twin that fills gaps, scales and clips."""
    if model.clip_ < math.inf and not model.with_mean:
        raise ValueError(
            "A DPStandardScaler with with_mean=False clips each column in its own range, as no "
            f"twin does, got clip={model.clip_:g}: fit with clip=None, or with_mean=True."
        )
    steps: dict[str, Any] = {}
    if model._takes_gaps:
        # Fitted to the single row `mean_`, the imputer fills gaps with the entries of this row.
        steps["fill"] = _copied(model, SimpleImputer().fit(model.mean_[np.newaxis]))
    twin = StandardScaler(with_mean=model.with_mean)
    steps["scale"] = _copied(model, twin, "mean_", "var_", "scale_", "n_samples_seen_")
    if model.clip_ < math.inf:
        clip = MinMaxScaler((-model.clip_, model.clip_), clip=True)
        ends = np.outer([-model.clip_, model.clip_], np.ones(model.n_features_in_))
        steps["clip"] = _copied(model, clip.fit(ends))
    return _steps(steps)


def _clip_between(model: Any, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Return two steps: one maps the ends of columns to 0 and 1 and clips, the other maps back."""
    width = high - low
    # A column with equal ends is constant; its divisor must not be 0.
    divisor = np.where(width > 0, width, 1.0)
    clip = _copied(model, MinMaxScaler(clip=True).fit([low, high]))
    clip.scale_ = (width > 0) / divisor
    clip.min_ = -low * clip.scale_
    back = _copied(model, StandardScaler())
    back.mean_, back.scale_ = -low / divisor, 1 / divisor
    back.var_, back.n_samples_seen_ = np.square(back.scale_), 2
    return {"clip": clip, "units": back}


# ------------------------------
# Twins of estimators that contain other estimators.


def _steps(steps: dict[str, Any]) -> Any:
    """Make a pipeline of steps, or return a single step."""
    first, *others = steps.values()
    # Unless `set_output` asks for data frames, steps behind the first get rows without names.
    if getattr(first, _OUTPUT, {}).get("transform", "default") == "default":
        for step in others:
            vars(step).pop("feature_names_in_", None)
    return Pipeline([*steps.items()]) if others else first


# The prefix "dp" in names of output columns, such as dppca0: the twin names this column pca0.
_OUR_NAME = re.compile(r"(?:\b|(?<=_))dp(?=(?:pca|truncatedsvd)\d)")


# Like vectorizers of texts, these steps may make sparse rows.
_MAY_BE_SPARSE = ColumnTransformer, FeatureHasher, FeatureUnion, FrozenEstimator, OneHotEncoder


def _pipeline_of(steps: Iterable[tuple[str, Any]], *, is_public: bool = False) -> Pipeline:
    """Return a pipeline of twins, without the memory and callbacks of the original."""
    twins = [(name, _twin_of(step, is_public=is_public)) for name, step in steps]
    # From the last step to the second, as steps may be inserted before the one at `place`.
    for place in range(len(twins) - 1, 0, -1):
        twin = twins[place][1]
        # Within the step at `place`, `first` is the estimator that gets the rows of earlier steps.
        model = getattr(twin, "regressor_", twin)
        first = model[0] if type(model) is Pipeline else model
        if "feature_names_in_" in getattr(first, "__dict__", ()):
            names = [_OUR_NAME.sub("", name) for name in first.feature_names_in_]
            first.feature_names_in_ = np.array(names, object)
        # A MinMaxScaler, which clips, takes no sparse rows.
        may_be_sparse = [
            type(before) in _MAY_BE_SPARSE or hasattr(before, "build_analyzer")
            for _, before in twins[:place]
        ]
        if type(first) is MinMaxScaler and any(may_be_sparse):
            all_columns = [("all", "passthrough", slice(0, None))]
            dense = ColumnTransformer(all_columns, sparse_threshold=0)
            twins.insert(place, ("dense", dense.fit(np.zeros((1, first.n_features_in_)))))
    return Pipeline(twins)


_TWINS: dict[type, Callable[[Any], Any]] = {
    DPCovariance: DPCovariance._twin,
    DPPCA: _pca,
    DPTruncatedSVD: lambda model: _components(model, TruncatedSVD(len(model.components_)), "mean_"),
    DPLinearRegression: _linear_regression,
    DPLogisticRegression: lambda model: _copied(
        model, LogisticRegression(), "classes_", "coef_", "intercept_"
    ),
    DPStandardScaler: _standard_scaler,
    DPPipeline: lambda model: _pipeline_of(model.pipeline_.steps),
    DPGridSearch: lambda model: _twin_of(model.best_estimator_),
    DPRandomizedSearch: lambda model: _twin_of(model.best_estimator_),
}


# ------------------------------
# The card of a model.

# Deltas for which a card states epsilon, beside the delta of the record.
_DELTAS = (1e-5, 1e-6, 1e-8)  # not tuned
# Parameters that a card leaves out: the budget, which the record states; secrets; and parameters
# that do not change the model.
_LEFT_OUT = ("epsilon", "delta", "random_state", "ledger", "memory", "n_jobs", "verbose")
# Parameters that state facts about the data: a card lists these in full, as assumed to be public.
_ASSUMED = {
    *("bound", "bounds", "categories", "center", "classes", "coherence_bound", "degree_floor"),
    *("edges", "knots", "largest", "max_entries", "max_rows_per_user", "mean_norm", "n_users"),
    *("prior", "response_bound", "row_norm", "sensitivity", "vocabulary"),
}
# What an attacker tries to guess about one unit, by the name of the unit.
_GUESSES = {
    **dict.fromkeys(("row", "record"), "that a person, of whom there is one row, is in the data"),
    "response": "which of two responses a person gave",
    "user": "that a person is in the data",
}
# Fields of the registry of deployments that only the publisher knows.
_OF_PUBLISHER = (
    *("name", "data_curators", "description", "intended_use", "data_product_region"),
    "publication_date",
)
_MODEL = {"model_name": "Central", "release_type": "One release"}
_MODEL |= {"data_source_type": "Static", "access_type": "Non-interactive"}
_CENTRAL = "central: whoever ran the fit has read the data"
_LOCAL = "local: each person has added the noise before anybody else saw its row"
_NOT_COVERED = "Not covered: the running time, and predictions for private rows and their scores."
_FALSE_POSITIVES = 0.01  # rate of an attack; not tuned
_WIDEST = 60  # characters of a parameter in a card; not tuned


@dataclass(frozen=True, repr=False)
class ModelCard:  # numpydoc ignore=PR02
    """Text to publish beside a model: what it is, what it protects, and what privacy it has cost.

    :func:`skdp.model_card` makes the card. Printed, it is Markdown.

    Parameters
    ----------
    model : str
        Name of the class.
    report : PrivacyReport
        The steps, their record and the verdict.
    spent : PrivacySpent
        The record of all steps together.
    parameters : dict
        Parameters of all steps by their names, without budgets, seeds and ledgers. In place of
        objects, functions and long texts, there are names of their types.
    features : tuple of str
        Names of the features; empty if they have none.
    versions : dict
        Versions of Python and of packages that the card was made with.
    assumptions : dict
        Parameters that state facts about the data, such as bounds, classes and categories, in full.
        Where candidates of a search differ, a dict has the values of all.
    n_units : int or None, default=None
        Number of protected units, such as rows; None if that is not known.
    notes : str, default=""
        Further text of the publisher.

    Notes
    -----
    **Privacy.** The card follows from the record and from public facts, and is as public as these.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA, model_card
    >>> card = model_card(DPPCA(2, row_norm=40, mean_norm=60).fit(load_digits().data))
    >>> card.as_dict()["unit"], round(card.epsilons[1e-8], 2)
    ('row', 1.22)
    """

    model: str
    report: PrivacyReport
    spent: PrivacySpent
    parameters: dict[str, Any]
    features: tuple[str, ...]
    versions: dict[str, str]
    assumptions: dict[str, Any]
    n_units: int | None = None
    notes: str = ""

    @property
    def advantage(self) -> float:
        """Largest difference of true and false positive rates of a guess about one unit."""
        return self.spent.delta_at(0.0)

    @property
    def true_positives(self) -> float:
        """Largest true positive rate of a guess about one unit, at a false positive rate of 1%."""
        return gaussian_dp.true_positives_at(self.spent.mu, _FALSE_POSITIVES, self.spent.delta_tail)

    @property
    def meaning(self) -> str:
        """The guarantee in a sentence."""
        if not self.report.is_private:
            return "No person in the data has a guarantee, for the reasons below."
        unit = self.spent.unit
        guess = _GUESSES.get(unit, f"which of two values one {unit} has")
        who = "Whoever" if self.spent.enforced else "As long as what is promised holds, whoever"
        return (
            f"{who} suspects {guess}, and sees the model, is right with at most "
            f"{math.ceil(50 * (1 + self.advantage))} instead of 50 of 100 such guesses."
        )

    @property
    def epsilons(self) -> dict[float, float]:
        """Epsilon for each of the usual deltas, and for the delta of the record."""
        deltas = sorted({*_DELTAS, self.spent.delta}, reverse=True)
        return {delta: self.spent.epsilon_at(delta) for delta in deltas}

    @property
    def cautions(self) -> list[str]:
        """The weaknesses of the guarantee."""
        return cautions(self.spent, self.spent._notes)

    @property
    def warnings(self) -> list[str]:
        """The privacy warnings of all fits, each after the path of its step."""
        steps = self.report.steps
        return [": ".join(filter(None, (one.path, text))) for one in steps for text in one.warnings]

    def as_dict(self) -> dict[str, Any]:
        """Return the card as plain numbers, strings, lists and dicts, ready for JSON.

        Infinity and NaN, which JSON does not have, are strings.

        Returns
        -------
        dict
            Model, verdict, guarantee and the whole record.
        """
        steps = self.report.steps
        facts = {
            "model": self.model,
            "meaning": self.meaning,
            "attack": {
                "advantage": self.advantage,
                "false_positives": _FALSE_POSITIVES,
                "true_positives": self.true_positives,
            },
            "n_units": self.n_units,
            "trust_model": self._trust,
            "noise": self._noise,
            "not_covered": _NOT_COVERED,
            "assumptions": self.assumptions,
            "notes": self.notes,
            "steps": [{"path": s.path, "class": s.class_name, "status": s.status} for s in steps],
            "features": list(self.features),
            "parameters": self.parameters,
            "verdict": self.report.verdict,
            "is_private": self.report.is_private,
            "unit": self.spent.unit,
            "adjacency": self.spent.adjacency,
            "epsilons": [{"delta": d, "epsilon": e} for d, e in self.epsilons.items()],
            "warnings": [*self.cautions, *self.warnings],
            "record": self.spent.as_dict(),
            "versions": self.versions,
        }
        return json.loads(json.dumps(facts), parse_constant=lambda name: str(float(name)))

    def registry_entry(
        self, slug: str, *, authors: str | Iterable[str], **product: Any
    ) -> dict[str, Any]:
        """Return a draft for the registry of deployments of differential privacy, in its schema.

        The schema is that of https://github.com/opendp/deployments-registry-data, as of 2026. The
        draft assumes one release of static data, without further queries: edit it otherwise.
        For a pull request, ``json.dumps`` gives text that is also YAML.

        Parameters
        ----------
        slug : str
            Last part of the entry's address in the registry.
        authors : str or iterable of str
            Names of the authors of the entry.
        **product : object
            Fields of ``basic``. These have no default: `name`, `data_curators` (a list of dicts
            with `data_curator_name` and `data_curator_type`), `description`, `intended_use`,
            `data_product_region` and `publication_date`, as YYYY-MM-DD.

        Returns
        -------
        dict
            The entry, ready for JSON.

        Raises
        ------
        ValueError
            If a field is missing, or the model is not private.
        """
        if missing := [name for name in _OF_PUBLISHER if name not in product]:
            raise ValueError(f"registry_entry needs {', '.join(missing)}, which no card can know.")
        if not self.report.is_private:
            raise ValueError(f"A registry entry needs a guarantee. {self.report.verdict}.")
        spent, assumed = self.spent, self.as_dict()["assumptions"]
        model = _MODEL | ({"model_name": "Local"} if self._trust.startswith("local") else {})
        listed = [authors] if isinstance(authors, str) else [*authors]
        mechanisms = ", ".join(dict.fromkeys(one.mechanism for one in spent.releases))
        given = {"epsilon": spent.epsilon, "delta": spent.delta}
        loss = {
            "privacy_unit": spent.unit,
            "privacy_unit_details": f"adjacency {spent.adjacency!r}, as skdp defines it",
            "privacy_parameters": {name: one for name, one in given.items() if one},
            "privacy_parameters_details": f"mu={spent.mu:.5g} (Gaussian DP). {self.meaning}",
            "number_of_privacy_units": self.n_units,
        }
        deployment = {
            "basic": {"data_product_type": "Machine learning model", **product},
            "dp_variant": {
                "variant_name": "Approximate DP" if spent.delta else "Pure DP",
                "unprotected_quantities": f"Public: {assumed}. {_NOT_COVERED}",
            },
            "privacy_loss": {name: one for name, one in loss.items() if one is not None},
            "deployment_model": {"trust_assumptions": self._trust, **model},
            "implementation": {
                "mechanisms": f"{mechanisms} of skdp {self.versions['skdp']}; noise {self._noise}, "
                "released numbers rounded to a public lattice",
                "composition": repr(spent),
                "additional_information": self.notes,
            },
            "administrative": {"status": "Draft", "registry_authors": listed, "tier": 2},
        }
        return {"url_slug": slug, "deployment": deployment}

    @property
    def _trust(self) -> str:
        """Who has seen the data."""
        of_reports = {one.name for one in self.spent.releases} == {REPORT}
        return self.spent.trust or (_LOCAL if of_reports else _CENTRAL)

    @property
    def _noise(self) -> str:
        return "from a seed" if self.spent.seeded else "from the operating system"

    def as_markdown(self) -> str:
        """Return the card as Markdown.

        Returns
        -------
        str
            A title, tables, and the record as it is printed.
        """
        spent = self.spent
        assumed = {**self.assumptions, "names of features": [*self.features]}
        public = [(name, f"`{_escaped(value)}`") for name, value in assumed.items() if value != []]
        n_units = [f"- n = {self.n_units}, the number of units, which is public"]
        steps = [(s.path or "whole", s.class_name, s.status) for s in self.report.steps]
        at = [(f"{delta:g}", f"{epsilon:.4g}") for delta, epsilon in self.epsilons.items()]
        texts = ((name, _escaped(value)) for name, value in self.parameters.items())
        given = [(n, f"`{text[:_WIDEST]}{'...' * (len(text) > _WIDEST)}`") for n, text in texts]
        lines = [
            *(f"# {self.model}", "", self.meaning, "", f"{self.report.verdict}.", ""),
            *_table(("Step", "Class", "What it is"), steps),
            *("## What is protected", ""),
            f"One {spent.unit}, adjacency {spent.adjacency!r}. {_NOT_COVERED}",
            *("", *([] if self.n_units is None else n_units)),
            f"- Attack advantage: at most {self.advantage:.3g}",
            f"- True positives at {_FALSE_POSITIVES:.0%} false ones: at most "
            f"{self.true_positives:.3g}",
            *(f"- Trust model: {self._trust}", f"- Noise: {self._noise}"),
            *("", *_table(("delta", "epsilon"), at)),
            *(f"**Warning:** {caution}.\n" for caution in self.cautions),
            *(f"**Warning:** {warning}\n" for warning in self.warnings),
            *("## What was released", "", "```", repr(spent), "```", ""),
            *("## What was taken to be public", "", *_table(("Name", "Value"), public)),
            *(["## Notes", "", self.notes, ""] if self.notes else []),
            # With `markdown="1"`, converters to HTML convert the table within this element, too.
            *('<details markdown="1"><summary>Parameters</summary>', ""),
            *(*_table(("Name", "Value"), given), "</details>", ""),
            *("## Versions", "", *_table(("Package", "Version"), self.versions.items())),
        ]
        return "\n".join(lines)

    __repr__ = _repr_markdown_ = as_markdown


def model_card(estimator: Any, *, notes: str = "") -> ModelCard:
    """Describe a fitted estimator and its privacy cost, to publish beside the model.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator, with at least one private step. It is not changed.
    notes : str, default=""
        Your additions: purpose of the model, owner of the data, how long they are stored.

    Returns
    -------
    ModelCard
        The card. Printed, or as ``as_markdown()``, it is Markdown; ``as_dict()`` is ready for JSON.

    Raises
    ------
    NotFittedError
        If the estimator, or a private step of it, has not been fitted.
    ValueError
        If there is no record of all steps together.

    See Also
    --------
    privacy_spent : The report in the card.
    to_sklearn : The model for users without skdp.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: the card follows from records, parameters,
    feature names and the warnings of the fits, which follow from released and public values. The
    card is as public as these. It has no seed and no ledger.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA, model_card
    >>> print(model_card(DPPCA(2, row_norm=40, mean_norm=60).fit(load_digits().data)))
    # DPPCA
    <BLANKLINE>
    Whoever suspects that a person, of whom there is one row, is in the data, and sees the ...
    """
    check_scalar(notes, "notes", str)
    report = privacy_spent(estimator)
    if report.spent is None:
        raise ValueError(
            "A card needs the record of private fits: pass a fitted estimator of skdp, alone or in "
            f"a pipeline. {report.verdict}."
        )
    given = estimator.get_params() if hasattr(estimator, "get_params") else {}
    given = {key: one for key, one in given.items() if not hasattr(one, "fit")}
    versions = {"skdp": sys.modules["skdp"].__version__, "scikit-learn": sklearn.__version__}
    versions |= {"numpy": np.__version__, "python": python_version()}
    return ModelCard(
        model=type(estimator).__name__,
        report=report,
        spent=report.spent,
        parameters=_plain(given),
        features=tuple(map(str, getattr(estimator, "feature_names_in_", ()))),
        versions=versions,
        assumptions=_assumptions(estimator, given),
        n_units=next((step.n_units for step in report.steps if step.n_units is not None), None),
        notes=notes,
    )


def _assumptions(estimator: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that state facts about the data; for a search, from all candidates.

    A search has fitted its candidates, and not the estimator that it was made with.
    """
    named = []
    for candidate in getattr(estimator, "cv_results_", {}).get("params", ()):
        tried = clone(estimator.estimator).set_params(**clone(candidate, safe=False))
        named += [(f"estimator__{name}", value) for name, value in tried.get_params().items()]
    assumed = dict[str, list[Any]]()
    for name, value in named or given.items():
        if name.rpartition("__")[2] in _ASSUMED and value is not None:
            plain, different = _plain(value, math.inf), assumed.setdefault(name, [])
            if plain not in different:
                different.append(plain)
    return {
        name: values[0] if len(values) == 1 else {"candidates": values}
        for name, values in assumed.items()
    }


def _plain(value: Any, widest: float = _WIDEST) -> Any:
    """Return a parameter's value in plain types.

    Objects, functions and texts of more than `widest` characters may contain seeds and paths: only
    their type is named.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {
            str(key): _plain(one, widest)
            for key, one in value.items()
            if str(key).rpartition("__")[2] not in _LEFT_OUT
        }
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_plain(one, widest) for one in value]
    is_short = isinstance(value, str) and len(value) <= widest
    if value is None or is_short or isinstance(value, bool | int | float):
        return value
    return f"<{type(value).__name__}>"


def _escaped(value: Any) -> str:
    """Return a value as text for a table in Markdown, whose columns are separated by "|"."""
    return str(value).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table in Markdown, and an empty line."""
    lines = [head, ("---",) * len(head), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]
