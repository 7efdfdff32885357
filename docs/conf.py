"""The site: `make docs` builds it, without a network and with warnings as errors."""

import os
import sys
from pathlib import Path

import gpec

sys.path.insert(0, str(Path(__file__).parent))
from drawing import in_place_of_code

os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "gpec"
author = "The gpec developers"
release = version = gpec.__version__
html_title = f"gpec {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_pictures", "_templates", "gallery"]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}  # the first is that of the generated pages
nitpicky = True
# What other libraries define, the words by which docstrings describe a type, and private names.
nitpick_ignore_regex = [("py:.*", r"(?!gpec\.).*"), ("py:.*", r".*\._.*"), ("py:.*", r"gpec\.runtime\..*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
maximum_signature_line_length = 88
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1_000,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "image_srcset": ["2x"],
    "capture_repr": (),
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["gpec.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "gpec"},
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "header_links_before_dropdown": 5,
    "collapse_navigation": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
copyright = "The gpec developers, MIT licence"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = ">>> "


def _leave_out(app, what, name, found, skip, options):
    """The methods that scikit-learn adds for its own routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _link_pages(app, path, parent, content):
    """The two files of the paper are linked by name; here they are pages."""
    for file, page in (("RESULTS.md", "paper.md"), ("TABLES.md", "paper-tables.md")):
        content[0] = content[0].replace(f"]({file}", f"]({page}")


def setup(app):
    """Draw the imports here: the script that draws them elsewhere would come from a network."""
    app.connect("source-read", in_place_of_code)
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("include-read", _link_pages)
