"""What a new user does wrong: each error names the parameter or column, the kind and a cure."""

# ruff: noqa: F401 - calls that stand in texts use what is imported
import datetime
import re
from functools import partial
from io import StringIO

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

import skdp.testing
import skdp.units
from skdp import (
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPLowRankFactorizer,
    DPPersonalizedRegressor,
    DPStandardScaler,
    DPStreamingFactorizer,
    DPTraceClassifier,
    DPTraceRegressor,
    DPTruncatedSVD,
    LocalReports,
    PrivacyLedger,
    PrivacyWarning,
    RowBlocks,
    make_dp_pipeline,
    model_card,
)
from skdp.display import score_histogram
from skdp.federated import Federation, Owner
from skdp.interactions import interaction_table, top_items
from skdp.metrics import captured_variance
from skdp.model_selection import DPGridSearch, epsilon_curve, private_score
from skdp.privacy import Plan, PrivacyCost

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N = 40
X = np.random.default_rng(0).uniform(0, 10, (N, 3))
Y = np.where(X[:, 0] > 5, "yes", "no")
FRAME = pd.DataFrame(X, columns=["age", "income", "visits"]).assign(town=["A", "B"] * (N // 2))
NUMBERS = FRAME[["age", "income", "visits"]]
PAIR = (0, 10)
TABLE = interaction_table([(user, "tea") for user in range(N)], items=["jam", "tea"])
SCALER, CLASSIFIER = DPStandardScaler(bounds=PAIR), DPLogisticRegression(classes=["no", "yes"])
MODEL = make_dp_pipeline(SCALER, CLASSIFIER)
OF_USERS = DPStandardScaler(privacy_unit="user")
STREAM = DPStreamingFactorizer(1, shape=(3, 2), privacy_unit=skdp.units.Update(1.0))
CONTINUAL = skdp.DPContinualFactorizer(
    1, shape=(3, 2), horizon=4, privacy_unit=skdp.units.Update(1.0)
)
MIXED = [*range(N - 1), "unknown"]
GAPS = np.where(X > 3, X, np.nan)
TEXTS = ["tea", "some jam"] * (N // 2)
SCALER_OF_GAPS = DPStandardScaler(missing="mean")
STEPS, OBJECTS = (SCALER, CLASSIFIER), np.where(X > 3, X, None)
SPELLED = make_dp_pipeline(CountVectorizer(vocabulary=["jam", "tea"]), CLASSIFIER)


CODES = (Y == "yes").astype(int)
DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 5, 17)] * (N // 2)
POLARS = pl.DataFrame({"age": X[:, 0], "town": ["A", "B"] * (N // 2), "day": DAYS})
TRIPLES = pd.DataFrame({"user": np.arange(120) % 60, "item": np.arange(120) // 60, "rating": 4})
TIMED = TRIPLES.assign(timestamp=1_700_000_000)
NUMBERED = NUMBERS.assign(user=np.arange(N) % 20)
OWNERS = NUMBERED["user"].to_numpy()
OWNED = NUMBERED.assign(user=[f"u{number}" for number in NUMBERED["user"]])
CLASSIFIER_OF_USERS = clone(CLASSIFIER).set_params(privacy_unit="user")
BY_NAME = ColumnTransformer([("age", "passthrough", ["age"])])
LOGS = ColumnTransformer([("log", FunctionTransformer(np.log1p), ["income"])], remainder="drop")
RATED = DPLowRankFactorizer(1, privacy_unit=skdp.units.Entry((1, 5)), missing="middle")


def fitted(rows=NUMBERS):
    return clone(MODEL).set_params(epsilon=np.inf).fit(rows, Y)


def ends(**others):
    return {"age": PAIR, "income": PAIR, "visits": PAIR, **others}


def of_users():
    return clone(CLASSIFIER_OF_USERS).fit(X, Y, users=OWNERS)


def plan_of_shares(*shares):
    cost = PrivacyCost(1.0, 1e-6)
    parts = [cost.release(str(i), "gaussian", one, lambda: 1.0, {}) for i, one in enumerate(shares)]
    return Plan(cost, tuple(parts), unit="row", adjacency="replace")


def past_the_horizon():
    unit = skdp.units.Update(1.0)
    stream = skdp.DPContinualFactorizer(1, shape=(3, 2), horizon=1, privacy_unit=unit)
    stream.close_epoch()
    stream.update(0, 0, 1.0)


def scaled(**others):
    return DPStandardScaler(bounds=ends(**others)).fit(NUMBERS)


def encoded(categories, *names):
    codes = OneHotEncoder(categories=categories)
    columns = ColumnTransformer([("codes", codes, [*names])])
    return make_dp_pipeline(columns, CLASSIFIER).fit(FRAME, Y)


def searched(name):
    return DPGridSearch(MODEL, {name: [1.0, 2.0]}).fit(X, Y)


def with_scaled(*names, **others):
    return ColumnTransformer([("scaled", DPStandardScaler(), [*names])], **others)


def cases_of(table):
    """Parametrize a test by calls, each above the error that it gives."""
    return pytest.mark.parametrize(("call", "text"), re.findall(r"(?m)^(\S.*)\n    (.*)$", table))


MISTAKES = r"""
scaled(income=(10, 0))
    of column income, \(10, 0\), must be \(
scaled(age=(5, 5))
    of column age, \(5, 5\), must be \(low, high\)
scaled(age=("0", "9"))
    column age, \('0', '9'\), .* numbers
scaled(age=(0, np.inf))
    age, \(0, inf\), must be \(low, high\): finite .* privately
scaled(age=(0, 1, 2))
    of column age, \(0, 1, 2\), must be
scaled(visits=None)
    of column visits, None, must be
DPLinearRegression(bounds=([0, 9, 0], [9, 0, 9])).fit(X, X[:, 0])
    bounds of column 1 must be
DPCovariance(bounds=[PAIR, PAIR]).fit(X)
    ^bounds=<list> has 2 pairs, but X has 3 columns: pass a pair \(low, high\) for each, in
DPLogisticRegression(classes="yes").fit(X, Y)
    classes must be a list .* Pass all labels, as \['no', 'yes'\] or \[0, 1\], got str
DPLogisticRegression(classes=2).fit(X, Y)
    classes must be a list .* got int
DPLogisticRegression(classes=["0", "1"]).fit(X, CODES)
    classes has texts: pass whole numbers as classes; or, .* codes of classes, classes=\[0, 1\]\.$
DPLogisticRegression(classes=["1", "2", "3"]).fit(X, CODES + 1)
    pass whole numbers as classes; or, .* codes of classes, classes=\[0, 1, 2\]\.$
DPLogisticRegression(classes=["1", "a"]).fit(X, CODES)
    classes has texts: pass whole numbers as classes; or, .* codes of classes, classes=\[0, 1\]\.$
DPLogisticRegression(classes=["1", "2.5"]).fit(X, CODES)
    classes has texts: pass whole numbers as classes; or, .* codes of classes, classes=\[0, 1\]\.$
DPLogisticRegression(classes=["nan", "1"]).fit(X, CODES)
    classes has texts: pass whole numbers as classes; or, .* codes of classes, classes=\[0, 1\]\.$
MODEL.fit(FRAME, Y)
    ^Column town holds texts\. Leave ids and names out, as X\.drop\(columns=\['town'\]\); ids of
MODEL.fit(FRAME, Y)
    users\. Encode categories by ColumnTransformer\(\[.*\['town'\]\)\], rem
fitted().predict(NUMBERS.iloc[[0]].assign(age=[None]))
    ^Column age holds None\. .* or numpy\.nan for a gap in a new row: steps can fill gaps
make_dp_pipeline(SimpleImputer(strategy="constant"), *STEPS).fit(X, Y).predict(OBJECTS)
    ^Columns 0, 1, 2 hold None\. Pass numpy\.asarray\(X, dtype=float\), or numpy\.nan for a gap
CLASSIFIER.fit(NUMBERS.where(NUMBERS > 3), Y)
    in a DPPipeline, or X\.fillna\(0\.0\) in fit and predict alike
CLASSIFIER.fit(csr_array(GAPS), Y)
    in a DPPipeline, or X\.data = numpy\.nan_to_num\(X\.data, nan=0\.0\) in fit
CLASSIFIER.fit(csr_array(np.where(X > 3, X, np.inf)), Y)
    as X\.data = numpy\.clip\(X\.data, -1e6, 1e6\) does
top_items(DPPersonalizedRegressor(1).fit(X[:, :2], X[:, 2], users=np.arange(N)), TABLE, 1)
    ^model is a DPPersonalizedRegressor, without transform .*: pass a DPTruncatedSVD or DPPCA
skdp.DPPipeline(SCALER, CLASSIFIER)
    ^DPPipeline\.__init__: .* make_dp_pipeline\(scaler, classifier\) takes steps one by one, and
make_dp_pipeline(SCALER, CLASSIFIER, shares=[0.5, 0.5]).fit(X, Y)
    Got <list> instead\. Pass numbers by names of private steps, as \{'dpstandardscaler': 1, \.\.
DPLinearRegression().fit(X, {"y": X[:, 0]})
    ^y should be .* shape \(\) instead\. Pass the column alone, as an array, a list or a series
LocalReports(3, row_norm=1.0).report(["a", "b", "c"])
    ^could not convert string to float\. Pass numbers\.$
LocalReports(3, row_norm=1.0).aggregate([LocalReports(3, row_norm=1.0).report(X[0])])
    n_components=2 must be an int from 1 to 1, the smaller of the numbers of reports and features
Federation(SCALER, n_rows=N, n_features=3, owners=1)
    ^colluding=1 and dropouts=0 must add to less than owners=1: pass more owners\.$
CONTINUAL.window(since=0, until=2)
    ^until=2 must be the number of an epoch whose release had store=True\. Stored: none\.$
PrivacyLedger(__file__)
    cannot be used, .*: file is not a database\. PrivacyLedger\.create\(.*\) makes one\.$
skdp.testing.audit(DPTruncatedSVD(1), X, X)
    ^fit must be a function of data and a seed, as lambda .*; got DPTruncatedSVD\.$
skdp.testing.find_data_dependent_attributes(lambda rows: rows, X, X)
    ^fit must be a function of data and a seed, as .*; got function\.$
DPLinearRegression().fit(X.T, X[:, 0])
    samples: \[3, 40\]\. .*; pass X\.T if X has a column for each entry of y\.$
RowBlocks.from_partitions(X, [N], 3)
    ^loaders must be functions .* arrays in memory need no RowBlocks\.$
RowBlocks.from_partitions([lambda: X], [N])
    ^n_features must be the number of columns, a positive integer, got 0\.$
skdp.metrics.subspace_distance(np.eye(2, 3), np.eye(2, 4))
    ^components and reference must have equally many columns, got 3 and 4\.$
top_items([CLASSIFIER], TABLE, 1)
    ^model is a list, without transform and inverse_transform
skdp.testing.check_privacy([CLASSIFIER])
    ^Pass PrivacyCase\(estimator, \(X,\)\), .* to parametrize_with_privacy_checks; got list\.$
skdp.testing.parametrize_with_privacy_checks([CLASSIFIER])
    ^Pass PrivacyCase\(estimator, .* got DPLogisticRegression\.$
skdp.testing.PrivacyCase(DPTruncatedSVD, (X,))
    ^estimator must be an object with fit, such as DPPCA\(2, epsilon=100\)\.$
make_dp_pipeline(OF_USERS, CLASSIFIER_OF_USERS).fit(NUMBERED, Y, users=NUMBERED["user"])
    ^The ids of users are column 'user' of X, too: pass X\.drop\(columns='user'\)
DPCovariance().fit(POLARS)
    ^Column town holds .*Column day holds .* Do this to X\.to_pandas\(\), in place of X\.$
MODEL.fit(X, Y, users=np.arange(N))
    got privacy_unit='record': pass privacy_unit='user' to dpstandardscaler and dplogisticr
make_dp_pipeline(SCALER, skdp.DPPCA(1), CLASSIFIER).fit(X, Y, users=np.arange(N))
    privacy_unit='user' to dpstandardscaler, dppca and dplogisticregression\.
DPCovariance().fit(NUMBERS).sample(9)
    ^sample needs .* DPCovariance\(marginals=True, bounds=\{'age': \(18, 90\), \.\.\.\}\):
DPCovariance(marginals=True).fit(X)
    needs bounds .*, as DPCovariance\(marginals=True, .*, of an array \[\(18, 90\),
Federation(SCALER, n_rows=N, n_features=3, owners=2).fit(X)
    of each of the 2 owners, got ndarray: pass \[X\[i::2\] for i in range\(2\)\]
DPLowRankFactorizer(1).fit(TRIPLES)
    ^X has a column 'user' and a column 'item', .* skdp\.interactions\.interaction_table\(
SCALER.fit(None)
    Pass rows: an array, a data frame
SCALER.fit({"age": [1.0]})
    Pass pandas.DataFrame\(X\)
SCALER.fit([{"age": 1.0}])
    Pass pandas.DataFrame\(X\)
SCALER.fit([[1, 2], [3]])
    have one length\.$
SCALER.fit(X + 1j)
    hstack\(\[X.real, X.imag\]\) .*Columns 0, 1, 2 hold
SCALER.fit(X.astype(str).astype(object) + "y")
    Columns 0, 1, 2 hold texts.* X\.drop\(columns=\[0, 1, 2\]\).* Do this to pandas\.DataFrame\(X\)
SCALER.fit("data.csv")
    X is a path: pass its rows, as pandas\.read_csv\(path\) reads them\.$
DPStandardScaler(ledger="budget").fit(X)
    Got 'budget' instead\. Pass PrivacyLedger\(path\), or PrivacyLedger\.create
DPTraceClassifier(classes=["no", "yes"]).fit(X[..., None, None], Y)
    dim 4.* DPTraceClassifier.*reshape.* Then pass matrix_shape=
OF_USERS.fit(X, users=np.arange(N).astype("timedelta64[s]"))
    must be all integers or all strings
OF_USERS.fit(NUMBERS, users=NUMBERS)
    users must be 1-D, with an id for each row
OF_USERS.fit(NUMBERS, users="town")
    users must be 1-D, with an id for each row .* got str: pass .* users=X\['user_id'\]
cross_val_score(OF_USERS, X, Y, error_score="raise", scoring=lambda *_: 0)
    cross_val_score as params=\{'users': ...\}
make_dp_pipeline(OF_USERS, CLASSIFIER).fit(X, Y, users=np.arange(N))
    got user of dpstandardscaler, record of dplogisticregression. Pass one privacy_unit to
make_dp_pipeline(Normalizer()).fit(X, Y)
    DPPipeline has no private step: pass one, such as DPStandardScaler
make_dp_pipeline([SCALER, CLASSIFIER]).fit(X, Y)
    a list is no estimator.* one by one, as make_dp_pipeline\(scaler, classifier, epsilon
make_dp_pipeline(SCALER, CLASSIFIER, 1.0).fit(X, Y)
    a float is no estimator.* epsilon=1.0\)
searched("scaler__clip")
    'scaler__clip' must not be searched.* that begin with dpstandardscaler__, dplogisticreg
searched("clip")
    'clip' must not be searched.* begin with dpstandardscaler__
epsilon_curve(CLASSIFIER, X, Y, epsilons=1, n_samples=1000)
    epsilons must be a list .* as \[0.5, 1, 2\], got 1\.
epsilon_curve(CLASSIFIER, X, Y, epsilons=[0, 1], n_samples=1000)
    epsilons must be a list of positive .* got \(0, 1\)\.
make_dp_pipeline(HashingVectorizer(n_features=8), CLASSIFIER).fit(FRAME[["town"]], Y)
    Step 'hashingvectorizer' .* Pass one column of texts, as X\['note'\]
encoded(["A", "B"], "town")
    Pass a list for each column, as categories=\[\['North', 'South'\]\] for one.*: town
encoded([["A", "B"]], "town", "age")
    Pass a list for each column
model_card(fitted(), notes={"use": "none"})
    notes must be an instance of str, not dict
fitted().predict(NUMBERS[["visits", "income", "age"]])
    same order as they were in fit\. Pass X\[list\(model\.feature_names_in_\)\]\.$
fitted(X).predict(NUMBERS.iloc[0])
    Pass a frame, .* X\.iloc\[\[0\]\] of one row
fitted(X).predict({"age": 40})
    not 'dict'\. Pass .* pandas\.DataFrame\(\[X\]\) of one row
skdp.RankOneMatrices.from_indices([1, 2, 3], [0, 1, 1], shape=(3, 2))
    Subtract 1 from ids that begin at 1; or is shape the other way round
STREAM.update([3], [2], [1.0])
    indices from 0 .* Subtract 1 from ids that begin at 1; or is shape the other way round
OF_USERS.fit(X, users=np.where(X[:, 0] > 5, np.nan, 1.0))
    none missing, NaN or infinite: in users, or groups, give each row without an id one of its own
OF_USERS.fit(X, users=["ann", None] * (N // 2))
    all strings, none missing.* give each row without an id one of its own, or
OF_USERS.fit(X, users={"ann", "ben"})
    got set: pass the column itself, users=X\['user_id'\]
DPTruncatedSVD(1).fit(skdp.RankOneMatrices.from_indices([0], [1], shape=(1, 2)))
    ^RankOneMatrices are for DPTraceRegressor: pass rows, or fit that.$
DPCovariance(bounds=PAIR).fit(X).regression(0, on=[0, 1])
    would predict itself: leave it out\.$
DPCovariance(bounds=PAIR).fit(NUMBERS).regression("income", on="age")
    a list of names or indices, or None: pass on=\[\.\.\.\]\.$
RowBlocks.from_partitions([X], lengths=[N], n_features=3)
    loaders must be functions .* arrays in memory need no RowBlocks\.$
past_the_horizon()
    closed\. A new one, with a larger horizon, is empty at first and spends its own epsilon
SCALER.fit(pd.DataFrame({"age": pd.to_timedelta(X[:, 0], unit="D")}))
    Column age holds dates or durations
SCALER.fit(NUMBERS[:0])
    Pass rows: a filter or a join may have kept none
DPLinearRegression().fit(X[:, 0], X)
    reshape\(-1, 1\) if it is one feature, .* one row\. X comes first, then y\.$
SCALER.fit(RowBlocks.from_partitions([lambda: X, lambda: X[1:]], [N, N], 3))
    Part 1 must have shape \(40, 3\), as lengths or shape says, .*; parts count from 0
LocalReports(3, row_norm=1.0).report(X)
    ^Call report once for each person, with one row of n_features=3 numbers, got shape \(40
LocalReports(3, row_norm=1.0).aggregate(X)
    ^reports must be a list of results of report, .* got ndarray\. Rows are not private: each
LocalReports(3, row_norm=1.0).aggregate([*X])
    ^reports\[0\] is no result of report of LocalReports\(3, .* calls report\(row\), and sends
fitted(X).predict(GAPS)
    numpy\.nan_to_num\(X, nan=0\.0\) in fit and predict alike
DPLogisticRegression(classes=[0, 1]).fit(X, np.where(Y == "yes", 1, -1))
    Labels -1 and 1, also of OutputCodeClassifier, take classes=\[-1, 1\]\.
CLASSIFIER.fit(X, np.where(Y == "yes", "yes ", "no"))
    Pass all labels that there may be as classes, with blanks and capitals as in y.$
SCALER.fit(RowBlocks.from_partitions([lambda: NUMBERS.assign(age="A")], [N], 3))
    RowBlocks\.from_parquet encodes categories=\{'age': \[\.\.\.\]\}
PrivacyLedger.create("nowhere/file", dataset="a", epsilon=1.0, delta=1e-6)
    nowhere' does not exist: make it before the ledger
skdp.units.Entry(1, 5)
    too many positional arguments\. Pass options by keyword, .* It takes bounds, zero
make_dp_pipeline(ColumnTransformer([("n", SCALER, [0, 7])]), CLASSIFIER).fit(X, Y)
    lacks the columns \[7\]\.
CLASSIFIER.fit(NUMBERS[1:], Y)
    numbers of samples: \[39, 40\]\. Take both from the same rows: fill gaps in X
clone(CLASSIFIER).set_params(class_weight="balanced").fit(X, Y)
    'class_weight' .* Got 'balanced' .* a dict by labels: counts of labels are private
DPStandardScaler(missing="mean").fit(pd.DataFrame({"age": [1, pd.NA] * 20}))
    'NAType'\. Pass X\.convert_dtypes\(\)
DPTruncatedSVD(1).fit(TABLE)
    ^X is an InteractionTable, which has its rows in table\.X: pass these\.$
top_items(DPTruncatedSVD(1, row_norm=2).fit(TABLE.X), "ann", 1)
    ^history is a str: pass an InteractionTable, as interaction_table\(pairs,
top_items(DPTruncatedSVD(1, row_norm=2).fit(TABLE.X), TRIPLES, 1)
    ^history is a DataFrame: pass an InteractionTable, as interaction_table\(pairs,
interaction_table(TRIPLES.assign(rating=pd.Timestamp("2020")), items=[0, 1])
    ^The third column holds dates, no ratings
interaction_table(TIMED, items=[0, 1])
    as pairs\[\['user', 'item', 'rating'\]\] of .* got shape \(120, 4\)
RATED.fit(TIMED)
    ^X has a column 'user' and a column 'item',
DPTruncatedSVD(1, privacy_unit="entry").fit(X)
    an object of skdp\.units, such as Entry\(bounds=\(1, 5\)\) for ratings or
DPPersonalizedRegressor(1).fit(OWNED, X[:, 0], groups="user")
    ^groups must be 1-D, with an id for each row .* got str
DPPersonalizedRegressor(1).fit(OWNED, X[:, 0])
    ^If .* pass user_column='user', or groups=X\['user'\] and X\.drop\(columns='user'\)\.
CLASSIFIER_OF_USERS.fit(NUMBERED, Y, users=NUMBERED[["user"]])
    ^The ids of users are column 'user' of X, too: pass X\.drop\(columns='user'\)
DPPersonalizedRegressor(1).fit(NUMBERED, X[:, 0], groups=NUMBERED[["user"]])
    ^The ids of users are column 'user' of X, too: pass X\.drop\(columns='user'\)
STREAM.partial_fit(TRIPLES)
    X has 3 columns, but shape=\(3, 2\) has 2: .* cells to update\(rows, columns, values\)
DPLinearRegression(prior=LinearRegression()).fit(X, X[:, 0])
    got 'LinearRegression'\. Call fit on public rows; if a clone has undone it
make_dp_pipeline(FunctionTransformer(lambda rows: rows / 10), SCALER).fit(NUMBERS)
    ^Step 'functiontransformer' returned a DataFrame .* Return frame\.to_numpy\(\) in the f
make_dp_pipeline(LOGS, DPStandardScaler(bounds=ends()), CLASSIFIER).fit(NUMBERS, Y)
    a list of pairs in the order of its columns, or put a scaler inside ColumnTransformer\.
PrivacyLedger("nowhere")
    make one by PrivacyLedger\.create\(.*\); if .*, pass unit=\(.row., .record.\) to it, too
RowBlocks([X, X])
    make_blocks must be a function .* got list; pass arrays in memory without RowBlocks
RowBlocks(lambda: [X])
    Pass shape=\(n_rows, n_columns\), pos
RowBlocks.from_partitions([lambda: X])
    lengths must have 1 items, as loaders has, got 0
DPGridSearch(FixedThresholdClassifier(CLASSIFIER, pos_label="yes"), {"threshold": [0.2]}).fit(X, Y)
    ^estimator: FixedThresholdClassifier is no step\. Put it around the whole pipeline
make_dp_pipeline(SCALER, FixedThresholdClassifier(CLASSIFIER, pos_label="yes")).fit(X, Y)
    FixedThresholdClassifier is no step\. Put it around the whole pipeline, or search, or wrap
LocalReports(3, row_norm=1.0).plan(3000)
    ^LocalReports\.plan: too many positional arguments\. It takes no arguments\.$
DPCovariance().partial_fit(X)
    ^This DPCovariance has no partial_fit: partial_fit needs .* Pass these, or call fit
plan_of_shares(0.7, 0.7)
    got \[0\.7, 0\.7\] with the sum 1\.4\.$
Federation(make_dp_pipeline(Normalizer(), SCALER), n_rows=N, n_features=3, owners=2)
    got Normalizer: other fits .* Apply steps that learn nothing, .* to the rows of each owner
Federation(SCALER, n_rows=N, n_features=3, owners=2).fit([GAPS[:20], GAPS[20:]])
    constant, as numpy\.nan_to_num\(X, nan=0\.0\) in fit .* by missing='mean' of a DPStandardScaler
PrivacyCost(1.0, 1e-6).release("count", "gaussian", 1.0, 1.0, {})
    count: sensitivity_of must be a function, such as lambda: 1.0
DPLogisticRegression(C=1.0)
    keyword argument 'C'\. Leave it out: the noise decides .* It takes classes
DPGridSearch(MODEL, {}, cv=5)
    'cv'. Leave it out: a search judges fits on their own rows
MODEL.fit(X, Y, dplogisticregression__sample_weight=X[:, 0])
    Leave it out: each record counts once, and .* It takes X, y, users
DPLowRankFactorizer(2, privacy_unit=skdp.units.Entry((1, 9))).fit(GAPS)
    NaN\. Pass the known entries as a sparse matrix, .* and missing='middle'
fitted().score(NUMBERS, Y, sample_weight=X[:, 0])
    DPPipeline\.score: .*'sample_weight'\. Leave it out: each record counts once
private_score(X, Y, CLASSIFIER)
    ^estimator must be a fitted estimator, got ndarray.$
private_score(fitted(), NUMBERS[["visits", "age", "income"]], Y)
    order as they were in fit\. Pass X\[list\(model.feature_names_in_\)\]\.$
make_dp_pipeline(ColumnTransformer([("one", SCALER, "age")]), CLASSIFIER).fit(NUMBERS, Y)
    ^Step 'columntransformer__one' takes a list of columns: pass \['age'\]\.$
make_dp_pipeline(ColumnTransformer([("one", SCALER, 1)]), CLASSIFIER).fit(X, Y)
    takes a list of columns: pass \[1\]\.$
encoded(["A", "B"], "town")
    'columntransformer__codes' raises ValueError: Shape .*=\[\['North', 'South'\]\] for one
make_dp_pipeline(Normalizer(), CLASSIFIER).fit(FRAME, Y)
    ^Step 'normalizer' refuses its rows. .*Column town holds texts.* OneHotEncoder
SPELLED.fit([*TEXTS[:-1], np.nan], Y)
    'countvectorizer' refuses a missing text. Fill gaps
clone(SPELLED).fit(TEXTS, Y).predict(pd.DataFrame({"tea": TEXTS}))
    which the first step takes. Pass one column of texts, as X\['note'\]
CLASSIFIER.fit(X, Y, groups=np.arange(N))
    'groups'. Pass the ids of persons as users, with privacy_unit='user'
PrivacyLedger(epsilon=4.0)
    PrivacyLedger\.__init__: .*'path'\. PrivacyLedger\.create\(path, dataset=.* makes one
PrivacyLedger.create("nowhere")
    missing a required .*argument: 'dataset'\. Pass all, as Priv
PrivacyLedger.create("file", dataset="people", epsilon="4", delta=1e-6)
    numbers, 0 < epsilon < inf .* got epsilon='4'
CLASSIFIER.fit(FRAME.assign(town="1,5"), Y)
    Column town holds texts\..*read_csv\(path, decimal=','\), or thousands=',' .* pandas.to_num
DPLinearRegression().fit(X, ["1,5"] * N)
    y holds texts.* decimal commas by pandas.read_csv\(path, decimal=','\)
CLASSIFIER.fit(NUMBERS.assign(age=NUMBERS["age"] + 1j), Y)
    two columns of each, by numpy.real .*Column age holds complex numbers\.$
CLASSIFIER.fit(NUMBERS.assign(age=10**400), Y)
    Column age holds infinity. Clip it to a public interval
CLASSIFIER.fit(FRAME.assign(town=[{"A": 1}] * N), Y)
    of one row. Column town holds objects. Make columns of numbers
CLASSIFIER.fit(csr_array(np.where(X.max() > X, 1.0, np.nan)), Y)
    Fill missing values .* Column 2 holds NaN
DPLogisticRegression(classes=[0, 1]).fit(X, np.where(Y == "no", "0", "1"))
    y has strings as labels, but the classes are integers: pass labels and classes of one type\.$
fitted().predict(NUMBERS.assign(more=1))
    - more\nPass the columns of the fit, X\[list\(model.feature_names_in_\)\]
DPStandardScaler(bounds=ends()).fit(NUMBERS.set_axis(["age"] * 3, axis=1))
    several columns of one name, which .*duplicated\(\)\] lists\. Give each its own
DPStandardScaler(bounds=ends()).fit(NUMBERS.assign(age=MIXED))
    Column age holds texts.* or pandas\.to_numeric\(X\['age'\]\.astype\(str\)\.str\.strip
DPTraceRegressor(rank=2).fit(NUMBERS[["age", "income"]].astype(int), X[:, 0])
    RankOneMatrices\.from_indices\(users, items, shape=\(n_users, n_items\)\)
DPPersonalizedRegressor(1, user_column="who").fit(NUMBERS, X[:, 0])
    user_column='who' is no column of X\. Pass one of age, income, visits\.
DPPersonalizedRegressor(1, user_column="who").fit(pd.DataFrame(X), X[:, 0])
    user_column='who' is no column of X\. Pass one of 0, 1, 2\.
DPStandardScaler(bounds=5).fit(X[:, :2])
    bounds=5 must be \(low, high\)
DPStandardScaler().plan(N, 3, like=NUMBERS.set_axis(["age"] * 3, axis=1))
    several columns of one name, which .*duplicated\(\)\] lists\.
skdp.DPPipeline([SCALER, CLASSIFIER]).fit(NUMBERS, Y)
    got <list>; make_dp_pipeline takes estimators\.
interaction_table([("ann", "tea"), ("ben", None)], items=["tea"])
    leave out gaps by pairs\.dropna\(\)
make_dp_pipeline(ColumnTransformer([("n", SCALER, ["agee"])]), CLASSIFIER).fit(FRAME, Y)
    lacks the columns \['agee'\]; it has age, income, visits, town\.
make_dp_pipeline(ColumnTransformer([("n", SCALER, ["age"])]), CLASSIFIER).fit(X, Y)
    columns \['age'\]\. An array has columns by number: pass \[0, 1\]
SCALER.fit(RowBlocks.from_partitions([lambda: NUMBERS.assign(age=pd.Timestamp("2020"))], [N], 3))
    Column age holds dates or durations. Make days of dates, by
CLASSIFIER.fit(NUMBERS.assign(age=[[1.0, 2.0]] * N), Y)
    Column age holds objects\. .*, as numpy\.stack\(list\(X\['age'\]\)\) does of lists
DPLinearRegression().fit(X, pd.Series(pd.Timestamp("2020"), range(N)))
    ^y: Dates, .* no numbers\. Make days of dates, by \(pandas\.to_datetime\(pandas\.Series\(y
DPLogisticRegression(classes=Y).fit(X, Y)
    or one twice: pass each once, as \['no', 'yes'\]\.$
fitted().predict(NUMBERS.rename(columns={"age": "Age"}))
    rename those that have other names now, by X\.rename\(columns=
fitted(X).predict(NUMBERS.iloc[0])
    or X\.to_frame\(\)\.T of a series that is a row
make_dp_pipeline(HashingVectorizer(n_features=8), CLASSIFIER).plan(N, 1)
    of a list of texts pass like=\['any text'\]\.$
make_dp_pipeline(OneHotEncoder(categories=[["A", "B"]]), DPStandardScaler()).fit(FRAME[["town"]])
    pass with_mean=False, .* or a OneHotEncoder .* with sparse_output=False
DPCovariance(bounds=PAIR, scales="bounds").partial_fit(X).regression(0)
    ^This DPCovariance has rows of partial_fit, and no release: call finalize.$
PrivacyLedger.create("file", dataset=NUMBERS, epsilon=1.0, delta=1e-6)
    ^dataset must be a name for people, got DataFrame.$
STREAM.update(["ann"], ["tea"], [1.0])
    of shape \(3, 2\)\. .* pandas\.Index\(known_ids\)\.get_indexer\(ids\)
private_score(MODEL, X, Y, 2.0)
    ^private_score: too many .* by keyword, as name=value. It takes estimator, X, y,
make_dp_pipeline(SCALER, CLASSIFIER, memory="cache")
    ^make_dp_pipeline: .*'memory'\. Leave it out: .* It takes steps, epsilon
make_dp_pipeline(SCALER, CLASSIFIER, privacy_unit="user")
    'privacy_unit'\. Pass it to each private step of a pipeline; DPP
DPLogisticRegression(bounds=PAIR)
    'bounds'\. Pass bounds of columns to a DPStandardScaler before it
skdp.RankOneMatrices.from_indices([0], [1])
    ^RankOneMatrices\.from_indices: .*'shape'\. It takes rows, columns, shape, dtype\.$
Owner(Federation(SCALER, n_rows=N, n_features=3, owners=2), X)
    ^Owner.__init__: .*'X'\. It takes federation, number, X
DPTruncatedSVD(1, privacy_unit=skdp.units.Interaction).fit(X)
    object of skdp\.units, such as .* or Interaction\(\)\.$
model_card(DPLogisticRegression)
    got a class.$
private_score(of_users(), X, Y)
    ^DPLogisticRegression protects users: pass users, an id for each row of X\. If each row belongs
score_histogram(DPTruncatedSVD(2, privacy_unit="user").fit(X, users=OWNERS), X)
    ^DPTruncatedSVD protects users: pass users, an id for each row
private_score(fitted(), X, Y, cv=5)
    'cv'. Leave it out: .*, a score takes a fitted model. It takes estimator
DPPersonalizedRegressor(privacy_unit="user")
    pipeline; DPPersonalizedRegressor always protects users. It takes n_components
Federation(SCALER, n_rows=N, n_features=3, owners=2).fit([X[:20], X[20:, :2]])
    ^X has 2 features, but 3 are agreed on.
DPLinearRegression(prior=LogisticRegression().fit(X, Y)).fit(X, X[:, 0])
    \(1, 3\) where X asks for \(3,\): fit a model of this kind to the columns of this X, in
clone(CLASSIFIER).set_params(prior=LogisticRegression().fit(X, CODES)).fit(X, Y)
    ^prior must have the classes no, yes, in this order, got 0, 1\.$
DPLinearRegression(prior=KMeans(2).fit(X)).fit(X, X[:, 0])
    ^prior must be a linear model or a tuple \(coef, intercept\), or None, got 'KMeans'\.$
DPStandardScaler(bounds=NUMBERS.agg(["min", "max"])).fit(NUMBERS)
    ^bounds=<DataFrame> must be \(low, high\), or a list or a dict of a pair for each of the 3
make_dp_pipeline(SCALER, BY_NAME, CLASSIFIER).fit(NUMBERS, Y)
    Steps pass on arrays: name columns by numbers, as \[0, 2\]\.$
make_dp_pipeline(FrozenEstimator(StandardScaler()), CLASSIFIER).fit(X, Y)
    ^Step 'frozenestimator': fit the estimator in a FrozenEstimator to public rows first
make_dp_pipeline(HashingVectorizer(), CLASSIFIER).fit(TEXTS, Y)
    Pass fewer columns \(n_features of a HashingVectorizer\)
DPPersonalizedRegressor(1).fit(X, X[:, 0]).head(X[0], X[0, 0])
    expecting 3 features\. Pass a row of one record, too, as X\.reshape\(1, -1\)
STREAM.update([0.0, 1.0], [0, 1], [1.0, 1.0])
    makes such integers\. These are of type float64\.$
PrivacyLedger.create(".", dataset="a", epsilon=1.0, delta=1e-6)
    ^There is a file or folder at '/
model_card(MODEL)
    is not fitted yet, and nothing is spent: call fit
interaction_table("log.csv", items=["tea"])
    two columns, a user and an item, .* as pairs\[\['user', 'item', 'rating'\]\] .* got str
skdp.DPPCA(2, 1.0)
    by keyword, as name=value\. It takes n_components, whiten
DPLogisticRegression(["no", "yes"])
    ^DPLogisticRegression\.__init__: .* by keyword, as name=value\. It takes classes,
DPLinearRegression().fit(X, X[:, :2])
    y should be a 1d array, .* make one fit for each; .* pass numpy.*argmax\(axis=1\)\.$
CLASSIFIER.fit(X, Y == "yes")
    ^y has booleans as labels, but the classes are strings: pass labels and classes of one type
DPStandardScaler(bounds=([9, 0, 0], [0, 9, 9])).fit(X)
    of column 0 must be \(low, high\), or a list or a dict of a pair for each of the 3 co.* low b
"""


MANY = np.random.default_rng(1).uniform(0, 10, (4000, 3)) * [1, 1000, 1]
MANY = pd.DataFrame(MANY, columns=["age", "income", "visits"])
NO_VISITS = MANY.assign(visits=np.nan)
ONE_PAIR = {"bounds": (0, 10), "epsilon": 4.0}
FILLED = {"bounds": [PAIR, (0, 10_000), PAIR], "epsilon": 4.0, "missing": "mean"}
#: Mistakes that no error can tell from a right call: a warning of released values names the column.
DOUBTED = r"""
DPStandardScaler(**ONE_PAIR).fit(MANY)
    Most entries of column income seem .* beyond it.* pass wider ones
DPLinearRegression(**ONE_PAIR).fit(MANY, MANY["income"])
    Most entries of column income seem
DPCovariance(**ONE_PAIR).fit(MANY.to_numpy())
    Most entries of column 1 seem
DPStandardScaler(**FILLED).fit(NO_VISITS)
    Noise fills the gaps of column visits, .* Leave such columns out
DPCovariance(**FILLED).fit(NO_VISITS)
    Noise fills the gaps of column visits, .* may hide other columns
DPStandardScaler(epsilon=4.0, missing="mean").fit(NO_VISITS)
    Noise fills the gaps of column visits,
DPLinearRegression(response_bound=0.1).fit(MANY, MANY["income"])
    half of the responses are at response_bound=0\.1, .* pass a larger response_bound
DPLinearRegression().fit(MANY, MANY["income"])
    ^y has the name of column 'income' of X\. .* from itself: pass X\.drop\(columns='income'\)\.
DPLinearRegression().fit(pl.from_pandas(MANY), pl.from_pandas(MANY)["income"])
    from itself: pass X\.drop\('income'\)\.
make_dp_pipeline(DPStandardScaler(), DPLinearRegression()).fit(MANY, MANY["income"])
    ^y has the name of column 'income' of X\.
DPGridSearch(make_dp_pipeline(DPStandardScaler(), DPLinearRegression()), {}).fit(MANY, MANY["age"])
    ^y has the name of column 'age' of X\.
make_dp_pipeline(with_scaled("age", "income"), DPLinearRegression()).fit(MANY, MANY["income"])
    ^y has the name of column 'income' of X\.
RATED.fit(TRIPLES.to_numpy())
    ^X has 3 columns: if they are users, items and ratings, .*interaction_table\(X, items=
DPGridSearch(clone(MODEL).set_params(epsilon=5.0), {}).fit(X, Y)
    epsilon=5 of the estimator is not used: .* share epsilon=1 of DPGridSearch. Pass epsilon
DPGridSearch(DPLinearRegression(delta=1e-9), {}, epsilon=2.0).fit(X, X[:, 0])
    delta=1e-09 of the estimator is not used: .* share delta=1e-06 of DPGridSearch.
"""


@cases_of(DOUBTED)
@pytest.mark.filterwarnings("default::skdp.PrivacyWarning")
def test_what_no_error_can_tell_a_warning_tells(call, text):
    with pytest.warns(PrivacyWarning, match=text):
        eval(call)


@pytest.mark.filterwarnings("error:Most entries of:skdp.PrivacyWarning")
@pytest.mark.filterwarnings("error:Noise fills the gaps:skdp.PrivacyWarning")
@pytest.mark.filterwarnings("error:epsilon=:skdp.PrivacyWarning")
def test_what_is_right_is_not_warned_of():
    bounded = DPStandardScaler(**FILLED)
    bounded.fit(MANY.where(MANY > 8))
    bounded.fit(MANY.assign(visits=0.0))  # as counts that are nearly always 0
    flags = np.zeros((4000, 3))
    flags[:, 0] = 1.0  # one of them is always 1
    DPStandardScaler(bounds=(0, 1), epsilon=4.0).fit(flags)
    DPGridSearch(clone(MODEL).set_params(epsilon=5.0), {}, epsilon=4.0).fit(X, Y)


@pytest.mark.filterwarnings("error:y has the name:skdp.PrivacyWarning")
def test_a_y_with_the_name_of_a_column_that_no_step_takes_is_not_warned_of():
    y, regression = MANY["income"], DPLinearRegression()
    regression.fit(MANY.drop(columns="income"), y)
    regression.fit(MANY.to_numpy(), y)
    regression.fit(MANY, y.rename("target"))
    without = FunctionTransformer(lambda rows: rows.drop(columns="income").to_numpy())
    left_out = [("scaled", DPStandardScaler(), ["age"]), ("none", "drop", ["income"])]
    rest = ColumnTransformer(left_out, remainder="passthrough")
    for first in (with_scaled("age", "visits"), without, rest):
        make_dp_pipeline(first, regression).fit(MANY, y)
    make_dp_pipeline(DPStandardScaler(), DPCovariance()).fit(MANY, y)  # y is not used


@pytest.mark.filterwarnings("error:X has 3 columns:skdp.PrivacyWarning")
def test_entries_with_other_names_or_of_0_and_1_are_not_taken_for_triples():
    RATED.fit(TRIPLES.set_axis(["tea", "jam", "pen"], axis=1).clip(1, 5))
    flags = skdp.units.Entry((0, 1))
    DPLowRankFactorizer(1, privacy_unit=flags).fit(TRIPLES.to_numpy() % 2)


def test_a_verdict_on_steps_of_sklearn_names_their_private_twins_alone():
    model = make_pipeline(StandardScaler(), DPTruncatedSVD(2), LogisticRegression()).fit(X, Y)
    assert skdp.privacy_spent(model).verdict == (
        "Not private: standardscaler (StandardScaler), logisticregression (LogisticRegression) "
        "learned from the data without privacy: use DPStandardScaler and DPLogisticRegression in "
        "make_dp_pipeline"
    )
    model = make_pipeline(DPTruncatedSVD(2), FunctionTransformer(np.tanh)).fit(X)
    told = "Pipeline has a step 'functiontransformer', which may reveal .*: put it before the first"
    assert re.match(f"Not private: {told}", skdp.privacy_spent(model).verdict)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:, :2], Y))
    verdict = skdp.privacy_spent(make_pipeline(DPTruncatedSVD(2), frozen).fit(X, Y)).verdict
    told = "Pipeline has a last step 'frozenestimator', which may reveal single rows in an error"
    assert verdict.startswith(f"Not private: {told}")
    assert "put it before" not in verdict


@cases_of(MISTAKES)
def test_it_says_what_and_the_cure(call, text):
    kinds = AttributeError, TypeError, ValueError, skdp.exceptions.LedgerError
    with pytest.raises(kinds, match=text):
        eval(call)


def test_cures_that_are_shapes_work():
    """Exactly what the errors of lists, of one row, and of texts in a plan say."""
    CLASSIFIER.fit(np.stack(list(pd.Series([[1.0, 2.0]] * N))), Y)
    assert fitted(X).predict(NUMBERS.iloc[0].to_frame().T.to_numpy()).shape == (1,)
    assert fitted().predict(NUMBERS.iloc[0].to_frame().T).shape == (1,)
    words = make_dp_pipeline(HashingVectorizer(n_features=8), CLASSIFIER)
    by_size = words.plan(N, 1, like=["any text"])
    assert str(words.plan(N, like=["any text"])) == str(by_size)
    dense = OneHotEncoder(categories=[["A", "B"]], sparse_output=False)
    make_dp_pipeline(dense, DPStandardScaler()).fit(FRAME[["town"]])


def as_floats(rows):
    return np.asarray(rows).astype(float)


WITH_TEXT = NUMBERS.astype(object)
WITH_TEXT.iloc[3, 1] = "x4711"
IN_TOWN = FrozenEstimator(OneHotEncoder().fit(FRAME[["town"]]))
PARTS = ColumnTransformer([("town", IN_TOWN, ["town"]), ("n", "passthrough", ["age", "visits"])])
OF_STEPS = {
    "a function": (FunctionTransformer(as_floats), WITH_TEXT, "cannot be read: .* Column income h"),
    "a step": (Normalizer(), WITH_TEXT, "^Column income holds texts"),
    "a category": (
        PARTS,
        FRAME.assign(town="4711"),
        r"^Found unknown categories\. Call set_params",
    ),
    "an array": (
        PARTS,
        FRAME.to_numpy(),
        r"dataframes\. Pass a data frame that has the columns of",
    ),
    "a lost column": (PARTS, FRAME[["town"]], r"missing: .*\nPass the columns of the fit, X\["),
}


@pytest.mark.parametrize("case", OF_STEPS)
def test_errors_of_fitted_steps_show_no_value(case):
    step, rows, text = OF_STEPS[case]
    model = make_dp_pipeline(step, CLASSIFIER, epsilon=np.inf)
    fit_to = FRAME if step is PARTS else NUMBERS
    for one in (model.fit(fit_to, Y), DPGridSearch(model, {}, epsilon=np.inf).fit(fit_to, Y)):
        with pytest.raises(ValueError, match=text) as refused:
            one.predict(rows)
        assert "4711" not in str(refused.value)
        assert refused.value.__context__ is None


def test_an_error_about_a_gap_in_a_new_row_names_its_column_and_what_to_pass():
    """A user of a fitted model has no table of the fit, and leaves no column out."""
    parts = ColumnTransformer(
        [
            (
                "logs",
                make_pipeline(*map(FunctionTransformer, (np.asarray, np.log1p)), SCALER_OF_GAPS),
                ["age"],
            ),
            ("town", OneHotEncoder(categories=[["A", "B"]], handle_unknown="ignore"), ["town"]),
            ("words", CountVectorizer(vocabulary=["jam", "tea"]), "note"),
        ]
    )
    table = pd.DataFrame({"age": X[:, 0], "town": ["A", "B"] * (N // 2), "note": TEXTS})
    model = make_dp_pipeline(parts, CLASSIFIER, epsilon=np.inf).fit(table, Y)
    advice = r"numpy\.nan for a gap in a column of numbers, None in .* '' in a column of texts\.$"
    for gap in ("age", "note"):
        with pytest.raises(ValueError, match=rf"^Column {gap} holds None\. .*{advice}") as refused:
            model.predict(pd.DataFrame([{"age": 40.0, "town": "A", "note": "tea", gap: None}]))
        assert "drop" not in str(refused.value)
    row = pd.DataFrame([{"age": np.nan, "town": None, "note": ""}])
    for one in (model, skdp.to_sklearn(model)):
        assert one.predict(row).shape == (1,)


def test_an_imputer_of_floats_says_what_to_do_with_whole_numbers():
    filled = SimpleImputer(strategy="constant", fill_value=2.0)
    model = make_dp_pipeline(filled, *STEPS, epsilon=np.inf).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match=r"filling value.* Pass whole numbers as floats, as in"):
        model.predict(NUMBERS.astype(int))


def cures_of(call, *patterns):
    """Return pieces of code of an error text, with the categories of the table."""
    with pytest.raises((TypeError, ValueError, skdp.exceptions.LedgerError)) as refused:
        call()
    text = str(refused.value).replace("'a', 'b'", "'A', 'B'")
    return [re.search(pattern, text).group() for pattern in patterns]


CODED = r"ColumnTransformer\(.*passthrough'\)"


def test_cures_of_texts_and_dates_work():
    own = {**globals()}
    (pandas,) = cures_of(lambda: MODEL.fit(FRAME, Y), CODED)
    coded = make_dp_pipeline(eval(pandas, own), DPStandardScaler(), CLASSIFIER)
    assert coded.fit(FRAME, Y)[-1].coef_.shape == (1, 5)
    array = FRAME.to_numpy(dtype=object)
    of_arrays = r"pandas\.DataFrame\(X\)\.infer_objects\(\)", CODED
    for given, n in ((array, 5), (array.tolist(), 5), (array[:, [3, 3]].astype(str), 4)):
        typed, by_number = cures_of(lambda given=given: MODEL.fit(given, Y), *of_arrays)
        assert (", [3])" in by_number) == (n == 5)
        # Of several columns the error has the beginning of each list.
        by_number = by_number.replace("], ...]", "], ['A', 'B']]").replace("[0, ...]", "[0, 1]")
        typed = eval(typed, {"pandas": pd, "X": given})
        coded = make_dp_pipeline(eval(by_number, own), DPStandardScaler(), CLASSIFIER)
        assert coded.fit(typed, Y)[-1].coef_.shape == (1, n)
    two = FRAME.assign(plan=FRAME["town"])
    (of_two,) = cures_of(lambda: MODEL.fit(two, Y), CODED)
    assert "categories=[['A', 'B'], ...]" in of_two
    assert "['town', ...])]" in of_two
    patterns = r"X\.to_pandas\(\)", CODED, r"\(pandas\.to_datetime\(X\['day'\].*dt\.days"
    frame, coded, days = cures_of(lambda: DPCovariance().fit(POLARS), *patterns)
    mended = eval(frame, {"X": POLARS})
    mended["day"] = eval(days, {"X": mended, "pandas": pd})
    assert mended["day"].to_list()[:2] == [7305, 7807]
    model = make_dp_pipeline(eval(coded, own), DPCovariance())
    assert model.fit(mended)[-1].covariance_.shape == (4, 4)


PAIRS = pd.DataFrame({("a", "age"): X[:, 0], ("b", "town"): FRAME["town"]})


@pytest.mark.parametrize(
    "rows",
    [
        FRAME.set_axis([10, 20, 30, 40], axis=1),
        FRAME.set_axis([3, 2, 1, 0], axis=1),
        FRAME.set_axis([*range(4)], axis=1),
        PAIRS,
        FRAME.rename(columns={"town": "a 'name' b"}),
        FRAME.rename(columns={"town": "['names'], ..."}),
    ],
)
def test_cures_work_for_columns_of_any_name(rows):
    patterns = CODED, r"X\.drop\(.*?\)(?=; ids)", r"(?<=texts take )pandas\.to_d.*(?=\.$)"
    codes, dropped, dates = cures_of(lambda: MODEL.fit(rows, Y), *patterns)
    with pytest.raises(ValueError, match=r"Column .* holds texts") as refused:
        MODEL.fit(rows, Y)
    renamed = "texts. Set X.columns = [str(c) for c in X.columns] first. Leave"
    are_texts = isinstance(rows.columns[0], str)
    assert (renamed in str(refused.value)) == (not are_texts)
    rows = rows.copy()
    if not are_texts:
        rows.columns = [str(c) for c in rows.columns]
    coded = make_dp_pipeline(eval(codes, {**globals()}), DPStandardScaler(), CLASSIFIER)
    n = rows.shape[1]
    assert coded.fit(rows, Y)[-1].coef_.shape == (1, n + 1)
    assert eval(dropped, {"X": rows}).shape == (N, n - 1)
    days = rows.assign(**{rows.columns[-1]: "2020-01-02"})
    assert eval(dates, {"X": days, "pandas": pd}).dt.day.eq(2).all()


def test_cures_of_durations_work():
    durations = NUMBERS.assign(age=pd.Series([datetime.timedelta(2)] * N, dtype=object))
    (seconds,) = cures_of(lambda: DPCovariance().fit(durations), r"pandas\.to_timedelta.*ds\(\)")
    assert eval(seconds, {"X": durations, "pandas": pd}).eq(2 * 86400).all()


def test_cures_of_gaps_in_y_of_logarithms_and_of_files_work(tmp_path):
    names = {"X": X, "y": GAPS[:, 0], "pandas": pd}
    pieces = cures_of(lambda: DPLinearRegression().fit(X, names["y"]), r"X\[.*?\)\]", r"y\[.*?\)\]")
    for table in (X, NUMBERS):
        DPLinearRegression().fit(*(eval(piece, {**names, "X": table}) for piece in pieces))
    steps = SCALER, CLASSIFIER
    with_zero = np.where(X > 3, X, 0)
    model = make_dp_pipeline(FunctionTransformer(np.log), *steps).fit(X, Y)
    with np.errstate(divide="ignore"):
        cures_of(
            lambda: model.predict(with_zero),
            "where a step takes logarithms, clip X above 0, as numpy",
        )
    safe = FunctionTransformer(lambda rows: np.log(np.clip(rows, 0.01, None)))
    assert make_dp_pipeline(safe, *steps).fit(X, Y).predict(with_zero).shape == (N,)
    table, parquet, array = (tmp_path / name for name in ("a.csv", "a.parquet", "a.npy"))
    NUMBERS.to_csv(table, index=False)
    cures_of(lambda: RowBlocks.from_parquet(table), r"pandas\.DataFrame\.to_parquet writes one\.$")
    pd.read_csv(table).to_parquet(parquet)
    assert RowBlocks.from_parquet(parquet).shape == X.shape
    save = r"numpy\.save\(path, X\.astype\(float\)\)"
    (saved,) = cures_of(lambda: RowBlocks.from_npy(table), save)
    eval(saved, {"numpy": np, "path": array, "X": NUMBERS.to_numpy(object)})
    assert RowBlocks.from_npy(array).shape == X.shape


def test_every_model_of_users_asks_for_the_users_of_a_score(ledger):
    steps = make_dp_pipeline(OF_USERS, CLASSIFIER_OF_USERS)
    columns = ColumnTransformer([("age", OF_USERS, [0])], remainder="passthrough")
    frozen = FrozenEstimator(of_users())
    of_ids = DPPersonalizedRegressor(1)
    whole = TransformedTargetRegressor(of_ids, func=np.cbrt, inverse_func=np.square)
    numbers = X[:, 0]
    released = DPCovariance(privacy_unit="user", epsilon=np.inf)
    released.fit(np.column_stack([X, Y == "yes"]), users=OWNERS)
    models = [
        (steps.fit(X, Y, users=OWNERS), Y),
        (make_dp_pipeline(columns, CLASSIFIER_OF_USERS).fit(X, Y, users=OWNERS), Y),
        (DPGridSearch(steps, {}).fit(X, Y, users=OWNERS), Y),
        (FixedThresholdClassifier(frozen, threshold=0.3, pos_label="yes").fit(X, Y), Y),
        (clone(of_ids).fit(X, numbers, groups=OWNERS), numbers),
        (whole.set_params(check_inverse=False).fit(X, numbers, groups=OWNERS), numbers),
        (skdp.to_sklearn(of_users()), Y),
        (FrozenEstimator(GridSearchCV(make_pipeline(frozen), {}, cv=2).fit(X, Y)), Y),
        (released.regression(3), numbers),
    ]
    for model, y in models:
        with pytest.raises(ValueError, match="protects users: pass users, an id for each row"):
            private_score(model, X, y, ledger=ledger)
        (ids,) = cures_of(partial(private_score, model, X, y), r"numpy\.arange\(.*?\)")
        found = private_score(model, X, y, users=eval(ids, {"numpy": np, "X": X}))
        assert found.privacy_spent.unit == "user"
    assert ledger.entries() == []


def test_a_ledger_names_the_delta_that_is_wrong(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "new", dataset="a", epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=r"^delta must be in \[0, 1\), got 2\.0\.$"):
        ledger.remaining(delta=2)
    with pytest.raises(ValueError, match=r"^delta_tail must be at least 0 and at most half of d"):
        ledger.remaining(delta=1e-6, delta_tail=1e-6)


def test_a_ledger_refuses_at_the_delta_of_the_fit(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "new", dataset="a", epsilon=1.0, delta=1e-6)
    left = ledger.remaining(delta=1e-4)
    model = DPTruncatedSVD(1, epsilon=0.8, delta=1e-4, ledger=ledger)
    told = f"has epsilon=0.8, .* has less left: {str(left)[:5]}.*, at delta=0.0001. This fit"
    assert left < 0.8 < ledger.remaining()
    with pytest.raises(skdp.BudgetError, match=told):
        model.fit(X)
    model.set_params(epsilon=left).fit(X)


def test_cures_of_parts_of_triples_and_of_ledgers_work(tmp_path):
    federation = Federation(SCALER, n_rows=N, n_features=3, owners=2)
    (parts,) = cures_of(lambda: federation.fit(X), r"\[X\[i::2\].*\(2\)\]")
    assert federation.fit(eval(parts, {"X": X})).mean_.shape == (3,)
    of_table = r"skdp\.interactions\.interaction_table\(X, .*\)\.X"
    (table,) = cures_of(lambda: RATED.fit(TRIPLES), of_table)
    table = eval(table, {"skdp": skdp, "X": TRIPLES, "catalog": [0, 1]})
    assert RATED.fit(table).components_.shape == (1, 2)
    (made,) = cures_of(lambda: PrivacyLedger("nowhere"), r"PrivacyLedger\.create\(.*?\)")
    ledger = eval(made, {"PrivacyLedger": PrivacyLedger, "path": tmp_path / "new"})
    assert ledger.remaining() == pytest.approx(4.0)


def test_the_cure_for_a_column_of_numbers_and_texts_loses_the_texts_alone():
    kept = pd.to_numeric(
        pd.Series(MIXED, dtype=object).astype(str).str.strip("$%"), errors="coerce"
    )
    np.testing.assert_array_equal(kept[:-1], MIXED[:-1])
    assert kept.isna().sum() == 1


@pytest.mark.skipif(coo_array([1.0]).ndim == 2, reason="older scipy has no sparse vectors")
def test_sparse_rows_of_one_axis_are_refused():
    with pytest.raises(
        ValueError, match=r"shape \(40,\). Pass a matrix, with a row of each record"
    ):
        CLASSIFIER.fit(coo_array(X[:, 0]), Y)


@pytest.mark.parametrize("kind", [np.array, lambda pairs: pairs.tolist()])
def test_ends_in_an_array_are_not_shown(kind):
    """Whoever passes rows for bounds must not find their entries in an error."""
    pairs = np.array([[0.0, 1.0], [3.25, 2.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="of column 1") as refused:
        DPStandardScaler(bounds=kind(pairs)).fit(X)
    assert "3.25" not in str(refused.value)


def test_a_pipeline_of_texts_maps_coordinates_back_to_words():
    model = make_dp_pipeline(CountVectorizer(vocabulary=["jam", "tea"]), DPTruncatedSVD(2))
    coordinates = model.set_params(epsilon=100.0).fit_transform(TEXTS)
    assert len(model.inverse_transform(coordinates)) == N
