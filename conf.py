"""The documents as a site: ``pip install -e '.[docs]' && sphinx-build -W . build/docs``.

The source is the whole repository, so that a link is the same where files are read as they are.
Pages are those below docs/ and what else ``include_patterns`` names; other files that are linked
to are copied. The site loads nothing from elsewhere.
"""

from docutils.nodes import SkipNode
from docutils.utils.math import latex2mathml

project = "har_jax"
author = copyright = "The har_jax authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "build", "dist", "runs", "har_jax", "tests", "venv", "**/__pycache__"]

html_theme = "furo"
html_title = project
html_copy_source = False
html_extra_path = ["docs/redirect"]  # the index.html of the site's root

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings have the types, with their shapes
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def mathml(as_block):
    """Formulas as browsers draw them by themselves, in place of a script from elsewhere."""

    def visit(translator, node):
        translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=as_block))
        raise SkipNode

    return visit, None


def is_field(app, what, name, obj, skip, options):
    """Fields of a NamedTuple stand among the attributes of its docstring already."""
    return skip or type(obj).__name__ == "_tuplegetter"


def setup(app):
    app.connect("autodoc-skip-member", is_field)
    app.add_html_math_renderer("mathml", mathml(False), mathml(True))
