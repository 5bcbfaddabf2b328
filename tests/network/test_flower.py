"""A fit over a real network: a server and five owners in processes of their own, by Flower."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest

from skdp import PrivacyLedger
from skdp.federated import Coordinator
from tests.network.counting import CountingProxy

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("flwr") is None, reason="needs the extra `flower`"
)
APP = Path(__file__).parents[2] / "examples" / "flower"
N_OWNERS, N_FEATURES, N_ROWS = 5, 500, 1000
# Seconds; it takes about a minute on two idle cores.
LIMIT = 300
KILLED = 3


@pytest.fixture
def parties(tmp_path, monkeypatch):
    """Return the folder of the parties, made as the example makes them, with longer rows."""
    monkeypatch.syspath_prepend(APP)
    from make_parties import make_parties

    spread = np.linspace(3, 0.1, N_FEATURES)
    rows = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES)) * spread
    make_parties(tmp_path, rows)
    return tmp_path


@contextmanager
def process(log, name, *arguments):
    """Run a command of Flower in a process group of its own, which is killed at the end."""
    settings = {"FLWR_HOME": str(log.parent / "home"), "FLWR_TELEMETRY_ENABLED": "0"}
    # Flower starts further commands of its own by their names.
    settings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # As in this process: sums of several threads may round otherwise.
    settings["OPENBLAS_NUM_THREADS"] = "1"
    command = [str(Path(sys.executable).with_name(name)), *arguments]
    with log.open("ab") as file:
        running = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **settings},
        )
    try:
        yield running
    finally:
        kill(running)


def kill(running):
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def free_port():
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_open(port):
    with closing(socket.socket()) as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, holds, end, folder):
    while not holds():
        if time.monotonic() > end:
            logs = [f"{log.name}: {log.read_text()[-3000:]}" for log in folder.glob("*.log")]
            pytest.fail("\n".join([f"{what} has not come", *logs]))
        time.sleep(0.1)


def server(folder, port):
    options = "--insecure", f"--port={port}", "--disable-runtime-dependency-installation"
    return process(folder / "server.log", "flower-superlink", *options)


def node(folder, number, superlink):
    options = "--insecure", f"--superlink=127.0.0.1:{superlink}", f"--port={free_port()}"
    config = f'--node-config=owner={number} folder="{folder / f"owner{number}"}"'
    return process(folder / f"node{number}.log", "flower-supernode", *options, config)


def run(folder, superlink, changes=()):
    app, home = shutil.copytree(APP, folder / "app"), folder / "home"
    for name, old, new in changes:
        text = (app / "owners" / name).read_text()
        assert old in text
        (app / "owners" / name).write_text(text.replace(old, new))
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[superlink.here]\naddress = "127.0.0.1:{superlink}"\ninsecure = true\n'
    )
    config = f"n-rows={N_ROWS} n-features={N_FEATURES} folders='{folder}'"
    return process(folder / "run.log", "flwr", "run", str(app), "here", "--run-config", config)


def test_an_owner_is_killed_while_its_answer_is_due_and_comes_back(parties):
    begin, port = time.monotonic(), free_port()
    end = begin + LIMIT
    names = ["server", *(f"owner{number}" for number in range(N_OWNERS))]
    saved = [parties / name / "model.joblib" for name in names]
    with ExitStack() as stack:
        stack.enter_context(server(parties, port))
        wait_for("the server", lambda: is_open(port), end, parties)
        proxy = stack.enter_context(CountingProxy(port))
        nodes = [stack.enter_context(node(parties, n, proxy.port)) for n in range(N_OWNERS)]
        stack.enter_context(run(parties, port))
        # It is there before the first answer of this owner leaves.
        state = parties / f"owner{KILLED}" / "first.state"
        wait_for("a question", state.exists, end, parties)
        kill(nodes[KILLED])
        stack.enter_context(node(parties, KILLED, proxy.port))
        wait_for("a model", lambda: all(one.exists() for one in saved), end, parties)
    seconds = time.monotonic() - begin
    # Both ways, in words of 4 bytes; and a node that waits asks for messages.
    planned = 2 * N_OWNERS * 4 * N_FEATURES * (N_FEATURES + 1) // 2
    assert planned < proxy.n_bytes < 1.05 * planned + 500 * N_OWNERS * seconds
    first, *others = map(joblib.load, saved)
    for model in (*others, model_in_one_process(parties)):
        np.testing.assert_array_equal(model.components_, first.components_)
    ledgers = [PrivacyLedger(parties / name / "ledger") for name in names[1:]]
    assert [len(ledger.entries()) for ledger in ledgers] == [1] * N_OWNERS


def model_in_one_process(folder):
    """Ask the owners again, from their states: the same questions get the same answers."""
    from owners.agreement import make_federation
    from owners.client import make_owner

    config = {"owners": N_OWNERS, "n-rows": N_ROWS, "n-features": N_FEATURES, "fit": "first"}
    config |= {"epsilon": 1.0, "row-norm": 50.0, "folders": str(folder)}
    contexts = [
        SimpleNamespace(run_config=config, node_config={"owner": number})
        for number in range(N_OWNERS)
    ]
    owners = [make_owner(context) for context in contexts]
    return Coordinator(make_federation(contexts[0])).run(
        lambda messages: {number: owners[number].handle(one) for number, one in messages.items()}
    )


N_OF_EACH = 10
# For each number of owners, those who leave, and the messages that each of them answers: two of
# keys, and two of each release.
GONE = {6: {1: 2, 3: 4, 4: 4}, 20: {2: 2, 7: 4, 11: 4}}
# Seconds in which all processes have to answer. The server waits so long at each roll call to which
# somebody does not come.
PATIENCE = 120.0
HANG_UP = """
    asked = folder / "asked"
    with asked.open("a") as file:
        file.write("x")
    if len(asked.read_text()) > GONE.get(number, 99):
        (folder / "gone").touch()
        time.sleep(3600)
    keys ="""


def hang_ups(n_owners):
    """Change the app of the example: some owners do not come to one of the roll calls."""
    gone = GONE[n_owners]
    pca = f"""
    pca = DPPCA(2, row_norm=9.0, mean_norm=9.0, solver="covariance")
    facts = {{"owners": {n_owners}, "dropouts": {len(gone)}}}
    return Federation(pca, [{N_OF_EACH}] * {n_owners}, 4, **facts)
    pca ="""
    return [
        ("agreement.py", "\n    pca =", pca),
        ("client.py", "\n    keys =", HANG_UP),
        ("client.py", "import numpy as np", f"import time\n\nimport numpy as np\n\nGONE = {gone}"),
        ("server.py", "save)\n", f"save, patience={PATIENCE})\n"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("n_owners", GONE)
def test_three_owners_hang_up_between_answers_and_are_named(tmp_path, monkeypatch, n_owners):
    monkeypatch.syspath_prepend(APP)
    import make_parties

    monkeypatch.setattr(make_parties, "N_OWNERS", n_owners)
    rows = np.random.default_rng(0).normal(size=(n_owners * N_OF_EACH, 4)) * [4, 3, 2, 1]
    make_parties.make_parties(tmp_path, rows)
    begin, port, gone = time.monotonic(), free_port(), GONE[n_owners]
    end = begin + 6 * LIMIT
    folders = [tmp_path / f"owner{number}" for number in range(n_owners)]
    with ExitStack() as stack:
        stack.enter_context(server(tmp_path, port))
        wait_for("the server", lambda: is_open(port), end, tmp_path)
        nodes = [stack.enter_context(node(tmp_path, n, port)) for n in range(n_owners)]
        stack.enter_context(run(tmp_path, port, hang_ups(n_owners)))
        for number in gone:
            wait_for("a hang-up", (folders[number] / "gone").exists, end, tmp_path)
            kill(nodes[number])
        left = [folder for number, folder in enumerate(folders) if number not in gone]
        saved = [folder / "model.joblib" for folder in (tmp_path / "server", *left)]
        wait_for("a model", lambda: all(one.exists() for one in saved), end, tmp_path)
    print(f"{time.monotonic() - begin:.0f} s")
    first, *others = map(joblib.load, saved)
    trust = first.privacy_spent_.trust
    assert trust.endswith(f"left before the end: {', '.join(map(str, gone))}")
    for model in others:
        assert model.privacy_spent_.trust == trust
        np.testing.assert_array_equal(model.components_, first.components_)
    assert not any((folders[number] / "model.joblib").exists() for number in gone)
    # Whoever has begun has paid: the first to leave had answered nothing but keys.
    n_paid = [len(PrivacyLedger(folder / "ledger").entries()) for folder in folders]
    assert n_paid == [int(number != min(gone)) for number in range(n_owners)]
