"""What each method of an estimator returns, in terms of the guarantee.

The pages of the estimators have it from here. A method without an entry fails the build and a test.
"""

_ROWS = "**Not covered**: a noise-free function of the rows passed in."
_RELEASED = "**Covered**: a function of released values."
_ITSELF = "The estimator itself, as ``fit``."

_NOTHING = "Nothing is returned, and nothing released."

GUARANTEE = {
    "aggregate": "**Covered**: a function of reports.",
    "checkpoint": "Nothing is returned, and nothing released. The file and its key together are as "
    "secret as the updates or rows.",
    "components": _RELEASED,
    "close_epoch": _NOTHING,
    "decision_function": _ROWS,
    "discriminant": _RELEASED,
    "error_norm": "**Covered**, if the covariance passed in is public or released.",
    "finalize": _RELEASED,
    "fit": "**Covered**: the fitted attributes. The estimator itself holds ``random_state``; a "
    "pickle of it does not.",
    "fit_transform": "**Not covered**: fits, and is a noise-free function of the same rows.",
    "get_covariance": _RELEASED,
    "get_feature_names_out": "**Public**: names of features or, for components, the name of the "
    "class and their number, which is covered.",
    "get_metadata_routing": "**Public**: settings only.",
    "get_params": "**Public**, but for ``random_state``: whoever has a seed can remove the noise.",
    "get_precision": _RELEASED,
    "head": "**Not covered**: a noise-free function of the rows passed in, for their owner only.",
    "inverse_transform": "**Not covered**: a noise-free function of the coordinates passed in. Of "
    "coordinates that are public or released it is covered.",
    "mahalanobis": _ROWS,
    "merge": "The stream itself; nothing is released.",
    "open_budget": "A budget; nothing is released, and a ledger is charged with the first release.",
    "partial_fit": "The stream or the estimator itself; nothing is released. Until ``finalize`` it "
    "is as secret as the rows.",
    "personalize": "**Not covered**: noise-free functions of the rows passed in, each for its "
    "owner only.",
    "plan": "**Public**: a function of the settings and of the public facts passed in.",
    "predict": _ROWS,
    "predict_log_proba": _ROWS,
    "predict_proba": _ROWS,
    "r2": _RELEASED,
    "reconstruct": _RELEASED,
    "regression": _RELEASED,
    "release": _RELEASED,
    "report": "**Covered**: one release.",
    "resume": "The stream or the estimator itself; nothing is released.",
    "sample": _RELEASED,
    "score": _ROWS,
    "score_samples": _ROWS,
    "set_callbacks": _ITSELF,
    "set_fit_request": _ITSELF,
    "set_output": _ITSELF,
    "set_params": _ITSELF,
    "set_predict_request": _ITSELF,
    "set_score_request": _ITSELF,
    "shard": "**Not covered**: private data, without noise, until `merge` has consumed it.",
    "std_errors": _RELEASED,
    "transform": _ROWS,
    "update": _NOTHING,
    "window": _RELEASED,
}

# Methods of the parties of a federation, whose names stand for something else elsewhere.
OF_PARTIES = {
    "Coordinator.run": "**Covered**: the model.",
    "Federation.fit": "**Covered**: the model. All rows are in this process.",
    "Owner.close": _NOTHING,
    "Owner.handle": "**Covered**, to the coordinator and up to ``colluding`` owners, together with "
    'the answers of all others. With ``aggregator="trusted"`` the coordinator is believed.',
}
