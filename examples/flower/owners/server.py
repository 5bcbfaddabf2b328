"""The app of the server, which has no rows."""

from owners.agreement import folder_of, keep, make_federation
from skdp.federated.flower import server_app


def save(model, context):
    """Keep the model on the server."""
    keep(model, folder_of(context, "server"))


app = server_app(make_federation, save)
