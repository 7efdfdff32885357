"""``python -m gpec``."""

from gpec.cli import app

app()
