"""Formulas as MathML, converted while the documentation is built: no script has to show them.

The converter is the one of docutils. It refuses what it does not know, and that is a warning here.
"""

import html
import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.add_css_file("mathml.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def visit_math(self, node):
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(self, node):
    # The class "math" is what themes lay out for MathJax.
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(mathml(node, as_block=True))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def mathml(node, as_block):
    try:
        return spaced(tex2mathml(node.astext(), as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def spaced(markup):
    """Space names of functions as TeX does, and keep plain brackets at the height of a letter."""
    markup = re.sub(
        r'<m[io]((?: movablelimits="true")?)(?: mathvariant="normal")?>(\w{2,})</m[io]>',
        r'<mo\1 lspace="0.15em" rspace="0.1em">\2</mo>',
        markup,
    )
    return re.sub("<mo>([‖⟨⟩])</mo>", r'<mo stretchy="false">\1</mo>', markup)
