"""The modules of the page import Dash."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("dash") else ["*.py"]
