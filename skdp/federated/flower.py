"""Owners and a coordinator as apps of Flower, which sends their messages over a network."""

import time
from collections.abc import Callable
from functools import partial
from logging import ERROR, WARNING
from typing import Any

try:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common.logger import log
    from flwr.serverapp import Grid, ServerApp
except ImportError:
    raise ImportError('skdp.federated.flower needs Flower: pip install "skdp[flower]"') from None

from skdp.exceptions import FederationError
from skdp.federated._federation import Coordinator, Federation
from skdp.federated._owner import Owner

__all__ = ["client_app", "server_app"]

# A message of Flower has one record, named `_RECORD`; the other names are the fields of the record.
_RECORD, _QUESTION, _ANSWER, _OWNER, _REFUSAL = "skdp", "question", "answer", "owner", "refusal"
# Seconds between two searches for connected nodes.
_PAUSE = 2.0  # not tuned


def client_app(
    make_owner: Callable[[Context], Owner], save: Callable[[Any, Context], None] | None = None
) -> ClientApp:
    """Make the app of an owner, which a node of Flower runs.

    For each message the owner is made again from its rows and its state, and runs the fit to the
    last release, as Flower may start a process for each message.

    Parameters
    ----------
    make_owner : callable
        Gets the context of Flower and returns the :class:`skdp.federated.Owner`, with a file as
        ``state``, the same file for all messages of a fit. ``context.node_config`` has settings of
        the node, such as the folder of its rows, and ``context.run_config`` settings of the run.
    save : callable or None, default=None
        Gets the fitted model and the context, and stores the model for this owner. It may be called
        several times with the same model.

    Returns
    -------
    ClientApp
        The app.

    See Also
    --------
    server_app : The app of the server.

    Notes
    -----
    **Privacy.** The federation has the unit, the adjacency and the mechanism. Released: the answers
    of the owner, each of which is on disk before it is sent. If the owner cannot answer, the server
    gets the text of a `FederationError`, which shows no values, or the name of the type of another
    error, whose text stays in the log of the node. Assumed public: the agreement, and when an owner
    answers.

    Examples
    --------
    >>> from skdp.federated import Owner
    >>> from skdp.federated.flower import client_app  # doctest: +SKIP
    >>> def make_owner(context):
    ...     folder = context.node_config["folder"]
    ...     rows = np.load(f"{folder}/rows.npy")
    ...     return Owner(federation, context.node_config["owner"], rows, state=f"{folder}/state")
    >>> app = client_app(make_owner)  # doctest: +SKIP
    """
    app = ClientApp()

    @app.query()
    def _answer(message: Message, context: Context) -> Message:  # numpydoc ignore=GL08
        fields = dict[str, Any]()
        try:
            with make_owner(context) as owner:
                fields[_OWNER] = owner.number
                if owner._path is None:
                    raise FederationError(
                        "make_owner must pass state=, a file: Flower may start many processes."
                    )
                fields[_ANSWER] = owner.handle(message.content[_RECORD][_QUESTION])
                if save is not None and "estimator_" in vars(owner):
                    save(owner.estimator_, context)
        except Exception as error:
            log(ERROR, "this owner has not answered", exc_info=error)
            text = str(error) if isinstance(error, FederationError) else type(error).__name__
            fields[_REFUSAL] = text
        return Message(RecordDict({_RECORD: ConfigRecord(fields)}), reply_to=message)

    return app


def server_app(
    make_federation: Callable[[Context], Federation],
    save: Callable[[Any, Context], None],
    *,
    patience: float = 600.0,
) -> ServerApp:
    """Make the app of the server, which leads a fit of owners.

    The server asks all connected nodes, and identifies owners by the numbers in their answers:
    nodes have no order, may connect late, and an owner may return on another node.

    Parameters
    ----------
    make_federation : callable
        Gets the context of Flower and returns the :class:`skdp.federated.Federation`.
    save : callable
        Gets the fitted model and the context, and stores the model.
    patience : float, default=600.0
        Seconds to wait for the answers of all owners to one question. Flower needs some 70 s to
        notice that a node is gone, and an owner needs time to return: `patience` should cover both.
        After that, the fit leaves out missing owners, if the federation has `dropouts` left.

    Returns
    -------
    ServerApp
        The app. If owners do not answer in time, the run fails with a
        :class:`skdp.exceptions.FederationError` that names them, and the budget of the fit is
        spent. A later run with the same federation and the same states of owners continues.

    See Also
    --------
    client_app : The app of an owner.

    Notes
    -----
    **Privacy.** A server has no private data. The user guide has a section "Across owners" on how a
    server may attack owners.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.federated import Federation
    >>> from skdp.federated.flower import server_app  # doctest: +SKIP
    >>> def make_federation(context):
    ...     pca = DPPCA(2, row_norm=5.0, mean_norm=5.0)
    ...     return Federation(pca, n_rows=600, n_features=4, owners=3)
    >>> app = server_app(make_federation, lambda model, context: print(model))  # doctest: +SKIP
    """
    app = ServerApp()

    @app.main()
    def _lead(grid: Grid, context: Context) -> None:  # numpydoc ignore=GL08
        federation = make_federation(context)
        send = partial(_sent, grid=grid, n_owners=federation._agreement.n_owners, patience=patience)
        save(Coordinator(federation).run(send), context)

    return app


# ------------------------------
# At the server.


def _sent(
    messages: dict[int, bytes], grid: Grid, n_owners: int, patience: float
) -> dict[int, bytes]:
    """Ask all nodes the same question until every owner has answered, or patience ends.

    Nodes of absent owners, whom the coordinator does not ask, may answer, too: their answers do not
    count.
    """
    (question,) = set(messages.values())
    content = RecordDict({_RECORD: ConfigRecord({_QUESTION: question})})
    answers, answered, deadline = dict[int, bytes](), set[int](), time.monotonic() + patience
    absent = [number for number in range(n_owners) if number not in messages]
    while len(answers) < len(messages) and (left := deadline - time.monotonic()) > 0:
        nodes = set(grid.get_node_ids()) - answered
        asked = [Message(content, node, "query", ttl=left) for node in nodes]
        for reply in grid.send_and_receive(asked, timeout=left) if asked else ():
            node = reply.metadata.src_node_id
            if reply.has_error():
                # The owner may return on another node.
                log(WARNING, "no answer from node %s: %s", node, reply.error.reason)
                continue
            fields = reply.content.get(_RECORD, {})
            if fields.get(_OWNER) not in absent:
                _add(answers, fields, n_owners)
            answered.add(node)
        if len(answers) < len(messages):
            time.sleep(min(_PAUSE, max(0.0, deadline - time.monotonic())))
    return answers


def _add(answers: dict[int, bytes], fields: Any, n_owners: int) -> None:
    """Add the answer of a node; raise an error if the node has refused to answer."""
    if _REFUSAL in fields:
        raise FederationError(f"A node has refused to answer: {fields[_REFUSAL]}")
    number, answer = fields.get(_OWNER), fields.get(_ANSWER)
    if not (isinstance(number, int) and isinstance(answer, bytes) and 0 <= number < n_owners):
        raise FederationError("The answer of a node is not an answer of an owner.")
    if answers.setdefault(number, answer) != answer:
        raise FederationError(f"Two nodes have given different answers for owner {number}.")
