"""What two fits have in common if they are the same."""

from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import to_state


def bits(g):
    """Everything a file would keep of a fit, but for how it ran."""
    state = to_state(g._fitted.saved())
    settings = {name: value for name, value in state["settings"].items() if name not in ("n_jobs", "progress")}
    return fingerprint({**state, "settings": settings})
