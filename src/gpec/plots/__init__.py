"""Pictures of an explanation; each draws on the axes it is given and returns them."""

from gpec.plots.bars import bars

__all__ = ["bars"]
