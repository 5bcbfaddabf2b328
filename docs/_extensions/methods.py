"""The directive `methods`: the public methods of a class, and what the guarantee says of them."""

import importlib
import inspect
import re

from guarantee import GUARANTEE, OF_PARTIES
from sphinx.util.docutils import SphinxDirective


def setup(app):
    app.add_directive("methods", Methods)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Methods(SphinxDirective):
    """A table of the methods of a class, and the descriptions of those that are ours."""

    required_arguments = 1

    def run(self):
        return self.parse_text_to_nodes("\n".join(page_of(self.arguments[0])))


def page_of(full_name):
    """Return the lines of reStructuredText."""
    module_name, _, class_name = full_name.rpartition(".")
    cls = getattr(importlib.import_module(module_name), class_name)
    names = public_methods(cls)
    if not names:
        return []
    rows = [("Method", "What it does")]
    for name in names:
        link = f":meth:`{name} <{home(cls, name, full_name)}.{name}>`"
        rows.append((link, summary(getattr(cls, name))))
    said = [OF_PARTIES.get(f"{class_name}.{name}", GUARANTEE.get(name)) for name in names]
    if all(said):
        column = ["What it returns, and the guarantee", *said]
        rows = [(*row, cell) for row, cell in zip(rows, column, strict=True)]
    lines = [
        ".. rubric:: Methods",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :class: methods",
        "",
    ]
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    for name in names:
        if is_ours(cls, name):
            lines += ["", f".. automethod:: {full_name}.{name}"]
    return lines


def public_methods(cls):
    """Names of what can be called, in order, but for what every tuple or exception has."""
    return [
        name
        for name in dir(cls)
        if not name.startswith("_")
        and callable(getattr(cls, name))
        and definer(cls, name).__module__ != "builtins"
    ]


def definer(cls, name):
    return next(base for base in cls.__mro__ if name in vars(base))


def is_ours(cls, name):
    # scikit-learn makes its requests for metadata in every class anew.
    is_request = re.fullmatch(r"set_\w+_request", name)
    return definer(cls, name).__module__.startswith("skdp.") and not is_request


def home(cls, name, full_name):
    """Return the class whose documentation has the method."""
    if is_ours(cls, name):
        return full_name
    public = (base for base in cls.__mro__ if base.__module__ == "sklearn.base")
    for base in public:
        if hasattr(base, name):
            return f"sklearn.base.{base.__name__}"
    # Requests are documented for scikit-learn's own estimators only.
    return "sklearn.linear_model.BayesianRidge"


def summary(method):
    """Return the first sentence of a docstring, in one line and without references."""
    paragraph = " ".join(inspect.getdoc(method).partition("\n\n")[0].split())
    return re.sub(r":\w+:`([^<`]*) <[^`]*>`", r"\1", paragraph)
