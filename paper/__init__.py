"""The paper's results, one script each: ``python -m paper``."""
