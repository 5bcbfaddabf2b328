"""Measurements of accuracy and speed: a folder a study, its committed tables beside the scripts.

sweep             all estimators on real tables and odd designs, beside their twins and no model
budgets           whether a larger budget is ever worse
classification    the classifier beside other libraries, its constants, its steps, its pipelines
cluster           what sums on a cluster cost
covariance        one second moment and the models that follow, gaps, intervals of coefficients
diagonal_prior    components from little budget
entries           one entry, edge or interaction protected: what is captured, and what is warned of
factorization     factors of a matrix and of streams
federated         owners of rows who fit together
guided            bounds that are found, and iteration beside a matrix
high_dimension    what else was tried where rows have hundreds of features
house             the package itself: constants, weight, mutations, fits that stay as they were
noise_errors      errors that noise makes, and what the released noise says of them
papers            the published algorithms themselves, mended where they break their promise
parts             rows that are larger than memory
pca               private components against published ways and libraries
people            one person with several rows protected
personalization   models of one's own on a shared representation
scaling           columns that are narrow beside their distance from 0, and generous bounds
search            searches for settings
seeds             the utility tests under fresh seeds
speed             time and memory of fits against those without privacy; import time
testing           what audits notice
trace_regression  errors and rates of the regressor, and data unlike the others

What the studies share stands in `report.py`, `data.py` and `figures.py`. A module is run from the
root of the checkout, as `python -m benchmarks.speed.speed`; its docstring says what it takes.
"""
