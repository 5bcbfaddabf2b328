"""Measurements of accuracy and speed: a folder a study, its committed tables beside the scripts.

pca               accuracy of private components against the best ones, published ways and libraries
high_dimension    what else was tried where rows have hundreds of features
entries           one entry, edge or interaction protected: what is captured, and what is warned of
trace_regression  errors and rates of the regressor, real data, and data unlike the others
papers            the published algorithms themselves, mended where they break their promise
scaling           columns that are narrow beside their distance from 0
seeds             the utility tests under fresh seeds
speed             time and memory of fits against those without privacy; import time

What the studies share stands in `report.py`, `data.py` and `figures.py`. A module is run from the
root of the checkout, as `python -m benchmarks.speed.speed`; its docstring says what it takes.
"""
