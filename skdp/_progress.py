"""Progress of fits, for the callbacks of scikit-learn 1.9; below that, estimators have none.

No other module knows these callbacks, whose interface is experimental. They see the tasks of a fit:
its passes over the data, each named after what is released next, and the groups of a pass, each of
which one thread takes at a time. They see no data. What they return, to stop a fit, is ignored: to
stop where a score says so would depend on the data.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from inspect import signature
from typing import Any, Self

from skdp.data.reduce import OBSERVER
from skdp.privacy import Plan, PrivacyBudget, Release

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:
    CallbackSupportMixin = None

# What a hook can ask for beside the estimator and its task.
_OF_DATA = {"X", "y", "metadata", "fitted_estimator"}
# What the start of a fit leaves on an estimator.
_OF_A_FIT = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

if CallbackSupportMixin is None:

    class Watched:
        """Has no callbacks."""

else:

    class Watched(CallbackSupportMixin):  # type: ignore[no-redef]
        """Lets callbacks see how far a fit is."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Set what a fit calls to tell how far it is. Needs scikit-learn 1.9.

            Parameters
            ----------
            *callbacks : callback
                Such as ``sklearn.callback.ProgressBar()``. They see tasks and no data, and cannot
                stop a fit. They replace those that were set before.

            Returns
            -------
            Self
                The estimator itself.

            Raises
            ------
            TypeError
                If one is no callback, or asks for data or a fitted estimator.
            """
            for callback in callbacks:
                _check_asks_for_no_data(callback)
            super().set_callbacks(*callbacks)
            return self


class Progress:
    """The tasks of one fit: its passes over the data or, of a whole, the fits of its steps."""

    #: Tells what a pass is for, once there is one.
    budget: PrivacyBudget | None = None

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context

    def __call__(self, groups: Iterator[Any], n_groups: int) -> Iterator[Any]:
        """Yield the sums of the groups of a pass; each group is a task of that of the pass."""
        task = self.begin(self.subtask(_next_of(self.budget), n_groups))
        for number in range(1, n_groups + 1):
            group = self.begin(task.subcontext(f"group {number}"))
            # What a kernel does is no pass of its own.
            token = OBSERVER.set(None)
            try:
                value = next(groups)
            finally:
                OBSERVER.reset(token)
            self.end(group)
            if number == n_groups:
                # Now, as nobody asks for more.
                self.end(task)
            yield value

    def subtask(self, name: str, n_tasks: int | None) -> Any:
        """Return the next task of the fit; it has so many itself, or nobody knows how many."""
        context = self.context
        if context.max_subtasks == len(context._children_map):
            # No fit fails for what was announced.
            context.max_subtasks = None
        return context.subcontext(name, max_subtasks=n_tasks)

    def begin(self, task: Any) -> Any:
        """Tell the callbacks that a task begins."""
        return task.call_on_fit_task_begin(estimator=self.estimator)

    def end(self, task: Any) -> None:
        """Tell them that it has ended."""
        task.call_on_fit_task_end(estimator=self.estimator)


# That of the pipeline or search that fits its steps in this thread.
_WHOLE: ContextVar[Progress | None] = ContextVar("whole", default=None)


def set_up(estimator: Any) -> Any:
    """Set up the callbacks of an estimator; return the task of its fit, None if there are none.

    `_fit_context` of scikit-learn tears them down by what this leaves on the estimator.
    """
    has_any = "_skl_callbacks" in vars(estimator)
    return estimator._init_callback_context(max_subtasks=None) if has_any else None


@contextmanager
def told(estimator: Any, task: Any, n_passes: Callable[[], int | None] | None) -> Iterator[None]:
    """Tell callbacks of the passes of a fit, or of the fits of steps if it has no `n_passes`."""
    progress = None if task is None else Progress(estimator, task)
    if progress and n_passes:
        task.max_subtasks = n_passes()
        progress.begin(task)
    variable: ContextVar[Any] = OBSERVER if n_passes else _WHOLE
    token = variable.set(progress)
    try:
        yield
    finally:
        variable.reset(token)
    if progress:
        progress.end(task)


def told_how_many_fits(n_fits: int) -> None:
    """Tell callbacks that the fit of a whole begins, and how many tasks it has."""
    if whole := _WHOLE.get():
        whole.context.max_subtasks = n_fits
        whole.begin(whole.context)


@contextmanager
def fitted_within(step: Any, name: str) -> Iterator[None]:
    """Make the fit of a step a task of the fit of the whole."""
    # Nobody would tear callbacks of its own down.
    vars(step).pop("_skl_callbacks", None)
    whole = _WHOLE.get()
    if whole is None:
        yield
        return
    task = whole.subtask(name, 0)
    with task.propagate_callback_context(step):
        whole.begin(task)
        try:
            yield
        finally:
            for left in _OF_A_FIT:
                vars(step).pop(left, None)
        whole.end(task)


def opened_within(name: str) -> AbstractContextManager[None]:
    """Make the passes that are made for a step before its fit tasks of a task of the whole."""
    whole = _WHOLE.get()
    if whole is None:
        return nullcontext()
    return told(whole.estimator, whole.subtask(name, None), lambda: None)


def name_passes_by(budget: PrivacyBudget) -> None:
    """Name the passes that follow after what the budget releases next."""
    observer = OBSERVER.get()
    if isinstance(observer, Progress):
        observer.budget = budget


def most_lines(plan: Plan) -> int:
    """Count what a fit releases on the longest path; all counts of a search are one."""
    return max(len(set(map(_line, path))) for path in plan.paths)


def _next_of(budget: PrivacyBudget | None) -> str:
    """Name what a pass is for."""
    if budget is None:
        return "opening"
    n_released, paths = len(budget._releases), budget._open_paths or ()
    names = dict.fromkeys(_line(path[n_released]) for path in paths if len(path) > n_released)
    return " or ".join(names) or "closing"


def _line(release: Release) -> str:
    return release.name.partition(", count")[0]


def check_unwatched(where: str, estimator: Any) -> None:
    """Refuse callbacks of what is fitted as a part of a whole."""
    if getattr(estimator, "_skl_callbacks", None):
        raise TypeError(
            f"{where}{type(estimator).__name__} has callbacks of its own: pass them to "
            "set_callbacks of the whole, and none here."
        )


def _check_asks_for_no_data(callback: Any) -> None:
    """Refuse a callback that asks for what tells of rows."""
    for hook in ("on_fit_task_begin", "on_fit_task_end"):
        function = getattr(callback, hook, None)
        asked = sorted(_OF_DATA & signature(function).parameters.keys()) if function else []
        if asked:
            raise TypeError(
                f"callbacks: {hook} of {type(callback).__name__} asks for {', '.join(asked)}. It "
                "could publish what private rows give, such as their score, after every step, and "
                "no budget pays for that. Pass callbacks that ask for the estimator and the "
                "context only, such as ProgressBar."
            )
