"""The apps of Flower, without a network: a grid in this process hands messages to nodes."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from skdp import DPPCA, DPLinearRegression, DPLogisticRegression, DPStandardScaler, make_dp_pipeline
from skdp.exceptions import FederationError
from skdp.federated import Federation, Owner

if importlib.util.find_spec("flwr") is None:
    pytest.skip("needs the extra `flower`", allow_module_level=True)

from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from skdp.federated.flower import client_app, server_app

N_OWNERS = 3
ROWS = np.random.default_rng(0).normal(size=(60, 4)) * [4, 3, 2, 1]
PARTS = [ROWS[number::N_OWNERS] for number in range(N_OWNERS)]


def make_federation(context=None):
    pca = DPPCA(2, epsilon=np.inf, row_norm=20.0, center=False)
    facts = {"owners": N_OWNERS, "aggregator": "trusted"}
    return Federation(pca, n_rows=len(ROWS), n_features=4, **facts)


class Grid:
    """Nodes by their ids, each with the number of its owner; a node in `dead` gives an error."""

    def __init__(self, folder, nodes, dead=(), **changes):
        self.nodes, self.dead, self.n_asked, self.models = dict(nodes), set(dead), 0, {}
        make_owner = changes.get("make_owner", self.make_owner)
        self.app, self.folder = client_app(make_owner, self.keep), folder

    def make_owner(self, context):
        number = context.node_config["owner"]
        return Owner(make_federation(), number, PARTS[number], state=self.folder / f"{number}")

    def keep(self, model, context):
        self.models[context.node_config["owner"]] = model

    def get_node_ids(self):
        self.n_asked += 1
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout):
        return [self.reply_of(message) for message in messages]

    def reply_of(self, message):
        node = message.metadata.dst_node_id
        if node in self.dead:
            return Message(Error(5, "gone"), reply_to=message)
        context = SimpleNamespace(node_config={"owner": self.nodes[node]}, run_config={})
        return self.app(message, context)


def run(grid, patience=60.0):
    models = []
    app = server_app(make_federation, lambda model, _: models.append(model), patience=patience)
    app._main(grid, SimpleNamespace(run_config={}))
    return models[0]


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    monkeypatch.setattr("skdp.federated.flower._PAUSE", 0.0)
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def test_the_model_is_that_of_one_process_on_the_server_and_at_every_owner(tmp_path):
    # Ids of nodes have no order.
    grid = Grid(tmp_path, {71: 2, 5: 0, 38: 1})
    models = [run(grid), *grid.models.values()]
    expected = make_federation().fit(PARTS).components_
    assert len(models) == 1 + N_OWNERS
    for model in models:
        np.testing.assert_array_equal(model.components_, expected)


@pytest.mark.parametrize(
    "estimator",
    [
        DPLogisticRegression(classes=["a", "b"], epsilon=np.inf),
        DPLinearRegression(epsilon=np.inf),
        DPStandardScaler(bounds=(-30, 30)),
        DPLogisticRegression(classes=["a", "b"], epsilon=1e3),
        make_dp_pipeline(
            DPStandardScaler(), DPLogisticRegression(classes=["a", "b"]), epsilon=np.inf
        ),
    ],
    ids=lambda one: f"{type(one).__name__} {one.epsilon}",
)
def test_models_with_targets_and_scales(tmp_path, monkeypatch, estimator):
    def make_federation(context=None):
        return Federation(estimator, len(ROWS), 4, owners=N_OWNERS, aggregator="trusted")

    is_regression = isinstance(estimator, DPLinearRegression)
    targets = ROWS[:, 0] if is_regression else np.where(ROWS[:, 0] > 0, "a", "b")

    class Labeled(Grid):
        def make_owner(self, context):
            number = context.node_config["owner"]
            data = PARTS[number], targets[number::N_OWNERS]
            return Owner(make_federation(), number, *data, state=self.folder / f"{number}")

    monkeypatch.setitem(globals(), "make_federation", make_federation)
    grid = Labeled(tmp_path, {71: 2, 5: 0, 38: 1})
    models = [run(grid), *grid.models.values()]
    assert len(models) == 1 + N_OWNERS
    expected = clone(estimator).set_params(epsilon=np.inf).fit(ROWS, targets)
    if hasattr(expected, "pipeline_"):
        expected, *models = (one.pipeline_[-1] for one in (expected, *models))
    name = "mean_" if hasattr(expected, "mean_") else "coef_"
    for model in models:
        np.testing.assert_array_equal(getattr(model, name), getattr(models[0], name))
        if estimator.epsilon == np.inf:
            np.testing.assert_allclose(getattr(model, name), getattr(expected, name), atol=1e-9)


def test_three_of_twenty_hang_up_between_answers(tmp_path, monkeypatch):
    """One of them is there again later, as another node: it is not asked for more."""
    rows = np.random.default_rng(1).normal(size=(200, 4)) * [4, 3, 2, 1]
    gone = {2: 0, 7: 2, 11: 2}  # owners, and from which question on

    def make_federation(context=None):
        facts = {"n_rows": [10] * 20, "n_features": 4, "owners": 20, "dropouts": 3}
        return Federation(DPStandardScaler(epsilon=8.0), **facts, aggregator="trusted")

    class Leaving(Grid):
        questions = ()

        def make_owner(self, context):
            number = context.node_config["owner"]
            part = rows[10 * number : 10 * number + 10]
            return Owner(make_federation(), number, part, state=self.folder / f"{number}")

        def reply_of(self, message):
            question = message.content["skdp"]["question"]
            self.questions = tuple(dict.fromkeys([*self.questions, question]))
            n_before = self.questions.index(question)
            node = message.metadata.dst_node_id
            is_there = n_before >= 3 if node == 99 else n_before < gone.get(node, 99)
            self.dead = set() if is_there else {node}
            return super().reply_of(message)

    monkeypatch.setitem(globals(), "make_federation", make_federation)
    grid = Leaving(tmp_path, {node: node for node in range(20)} | {99: 2})
    model = run(grid, patience=2.0)
    assert model.mean_.shape == (4,)
    assert model.privacy_spent_.trust.endswith("owners who left before the end: 2, 7, 11")
    assert set(grid.models) == set(range(20)) - gone.keys()
    np.testing.assert_array_equal(grid.models[0].mean_, model.mean_)


def test_a_late_node_is_waited_for(tmp_path):
    class Late(Grid):
        def get_node_ids(self):
            ids = super().get_node_ids()
            return ids if self.n_asked > 3 else ids[:2]

    grid = Late(tmp_path, {1: 0, 2: 1, 3: 2})
    assert run(grid).components_.shape == (2, 4)


def test_an_owner_may_come_back_as_another_node(tmp_path):
    class Replaced(Grid):
        def get_node_ids(self):
            if self.n_asked == 2:
                self.nodes[9] = 2
            return super().get_node_ids()

    grid = Replaced(tmp_path, {1: 0, 2: 1, 3: 2}, dead={3})
    assert run(grid).components_.shape == (2, 4)


def test_who_does_not_come_back_is_named(tmp_path):
    with pytest.raises(FederationError, match="of the 3 owners: 2"):
        run(Grid(tmp_path, {1: 0, 2: 1, 3: 2}, dead={3}), patience=0.5)


def test_errors_tell_the_server_no_values(tmp_path):
    def fails(context):
        raise ValueError("could not convert string to float: 'Jane Doe'")

    with pytest.raises(FederationError, match="ValueError") as caught:
        run(Grid(tmp_path, {1: 0}, make_owner=fails))
    assert "Jane" not in str(caught.value)


def test_an_owner_without_a_state_is_refused(tmp_path):
    def forgets(context):
        return Owner(make_federation(), 0, PARTS[0])

    with pytest.raises(FederationError, match="state="):
        run(Grid(tmp_path, {1: 0}, make_owner=forgets))


def test_two_nodes_with_different_answers_of_one_owner_are_refused(tmp_path):
    class Twice(Grid):
        def make_owner(self, context):
            self.n_made = getattr(self, "n_made", 0) + 1
            rows = PARTS[0] + self.n_made
            return Owner(make_federation(), 0, rows, state=self.folder / f"{self.n_made}")

    with pytest.raises(FederationError, match="different answers for owner 0"):
        run(Twice(tmp_path, {1: 0, 2: 0}))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"owner": 7, "answer": b""},
        {"owner": 0, "answer": "x"},
        {"owner": [0], "answer": b""},  # a list is not hashable
    ],
)
def test_what_is_no_answer_is_refused(tmp_path, fields):
    class Wrong(Grid):
        def reply_of(self, message):
            content = RecordDict({"skdp": ConfigRecord(fields)})
            return Message(content, reply_to=message)

    with pytest.raises(FederationError, match="is not an answer of an owner"):
        run(Wrong(tmp_path, {1: 0}))
