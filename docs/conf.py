"""Configuration of the documentation. Nothing is fetched, neither by the build nor by its pages."""

import sys
from pathlib import Path

import skdp

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "skdp"
author = "the skdp developers"
project_copyright = "2026, the skdp developers"
version = release = skdp.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "methods",
    "pages",
    "sphinx_design",
]

templates_path = ["_templates"]
exclude_patterns = ["_build"]

# Docstrings. The class template lists the members, so numpydoc must not list them again.
autosummary_generate = True
autodoc_mock_imports = ["flwr"]  # which pins the versions of too much else
autodoc_typehints = "none"  # types are in the docstrings, with their units
numpydoc_show_class_members = False
# What is documented here is public, so it needs every section; cf. [tool.numpydoc_validation].
numpydoc_validation_checks = {"all", "RT02", "GL01", "GL02", "ES01", "SA01", "EX01"}
# Python writes these docstrings.
numpydoc_validation_exclude = {
    r"\.Released\.(noise_std|value)$",
    r"\.InteractionTable\.(X|users|items)$",
    r"\.PrivacyStep\.(path|class_name|status|records|note|seeded|warnings|n_units)$",
    r"\.testing\.(AuditReport|Finding)(\.\w+)?$",
    r"\.testing\.mistakes\.",  # parameters are those of NoisyMean
}

# The contents of a page of the API name members, without the class in front of each.
toc_object_entries_show_parents = "hide"

# Code is copied without prompts and without what it prints.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# A name that leads nowhere is a warning.
nitpicky = True

# Citations: :doi:`10.1111/rssb.12454` and :arxiv:`1805.06530`.
extlinks = {
    "arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s"),
    "doi": ("https://doi.org/%s", "doi:%s"),
}

# Names of scikit-learn, for :class:`~sklearn.decomposition.PCA`: those that are mentioned, with the
# pages that they are on, in the format that can be written by hand.
intersphinx_mapping = {
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/sklearn.inv"),
}

# Examples. All are executed, and one that fails stops the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "image_scrapers": ("pages.described_figures",),
    "subsection_order": [
        "../examples/components",
        "../examples/prediction",
        "../examples/items",
        "../examples/rows",
    ],
    "within_subsection_order": "pages.MainFirst",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "doc_module": ("skdp",),
    "backreferences_dir": "generated/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_title = f"skdp {release}"
html_logo = html_favicon = "_static/logo.svg"
html_copy_source = False
html_theme_options = {
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "skdp", "alt_text": "skdp: to the first page"},
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
