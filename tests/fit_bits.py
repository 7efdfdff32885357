"""What two fits have in common if they are the same."""

from gpec.runtime.fingerprint import fingerprint


def bits(g):
    """Everything a file would keep of a fit, but for how it ran."""
    state = g._fitted.state()
    settings = {name: value for name, value in state["settings"].items() if name not in ("n_jobs", "progress")}
    return fingerprint({**state, "settings": settings})
