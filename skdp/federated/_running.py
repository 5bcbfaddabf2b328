"""A fit that waits for sums: it runs in a thread of its own, from one release to the next."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, NamedTuple

import numpy as np

from skdp.privacy.shares import Exchange, ShareLayout


class Waiting(NamedTuple):
    """A release whose sum the fit waits for, and the part of this party."""

    layout: ShareLayout
    part: np.ndarray


class _Stopped(BaseException):
    """Ends a fit that nobody waits for any more; no solver catches it."""


class RunningFit:
    """Runs ``fit(exchange)`` from one release to the next.

    A fit is one function that calls its budget for every release. What the budget waits for comes
    in a message, so that function and messages take turns in two threads.
    """

    def __init__(self, fit: Callable[[Exchange], Any], sums: Sequence[np.ndarray] = ()) -> None:
        self._sums = list(sums)
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[np.ndarray | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(fit,), daemon=True)
        self._thread.start()

    def next(self) -> Any:
        """Return the release that the fit waits for, or its result; raise what it has raised."""
        found = self._questions.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def go_on(self, total: np.ndarray) -> Any:
        """Hand in the sum of the release that the fit waits for; return what is next."""
        self._answers.put(total)
        return self.next()

    def stop(self) -> None:
        """End the fit, wherever it is."""
        self._answers.put(None)
        # The garbage collector may end a fit while it runs, and in its own thread.
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self, fit: Callable[[Exchange], Any]) -> None:
        known = iter(self._sums)

        def exchange(layout: ShareLayout, part: np.ndarray) -> np.ndarray:
            if (total := next(known, None)) is not None:
                return total
            self._questions.put(Waiting(layout, part))
            if (answer := self._answers.get()) is None:
                raise _Stopped
            return answer

        try:
            self._questions.put(fit(exchange))
        except _Stopped:
            pass
        except BaseException as error:
            self._questions.put(error)
