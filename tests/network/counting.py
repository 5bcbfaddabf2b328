"""A server on this machine that hands bytes on to another one, and counts them."""

import socket
from contextlib import suppress
from threading import Lock, Thread


class CountingProxy:
    """Passes connections on to a port; `n_bytes` are those of both ways."""

    def __init__(self, port):
        self.n_bytes, self._target, self._lock = 0, ("127.0.0.1", port), Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                for pair in ((near, far), (far, near)):
                    Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self.n_bytes += len(data)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
