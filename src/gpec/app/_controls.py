"""The playground's controls: name, one-sentence help and range of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import Any

from dash import dcc, html

from gpec.app._datasets import DATASETS, MODELS, REGULARISATION
from gpec.app._surface import PAPER, SIMILAR, Controls

_START = Controls()


@dataclass(frozen=True)
class Dial:
    """A slider. With ``power`` it sets the base-10 logarithm of its value."""

    name: str
    title: str
    help: str
    least: float
    most: float
    step: float
    power: bool = False

    def shown(self, value: float) -> float:
        """Position of the slider for a value, rounded to a step."""
        position = log10(value) if self.power else value
        return round(self.least + self.step * round((position - self.least) / self.step), 6)

    def meant(self, position: float) -> float:
        """Value at a position of the slider, limited to its range."""
        position = min(max(float(position), self.least), self.most)
        return 10.0**position if self.power else position


SLIDERS = (
    Dial("lam", "lambda: how similarity falls",
         "Higher: rows are similar only if they are close along the boundary.",
         -1.5, 1.5, 0.1, power=True),
    Dial("rho", "rho: how local a row is", "Higher: a row depends only on the boundary points nearest to it.",
         -1.0, 2.5, 0.1, power=True),
    Dial("n_boundary", "Boundary points", "Number of points sampled on the decision boundary.", 50, 600, 50),
    Dial("regularisation", "Regularisation of the model", "Higher: a smoother model, with a simpler boundary.",
         *REGULARISATION, 0.5),
    Dial("noise", "Noise of the explainer", "Standard deviation of the explainer's answer for a row.",
         0.0, 0.1, 0.01),
    Dial("step", "Step to similar rows", "Position of similar rows between the row and its nearest rows.",
         0.1, 1.0, 0.1),
)  # fmt: skip


def controls_from(chosen: dict[str, Any], positions: dict[str, float], added: list[Any] | None) -> Controls:
    """The settings: choices, positions of the sliders, and added rows."""
    numbers: dict[str, Any] = {dial.name: dial.meant(positions[dial.name]) for dial in SLIDERS}
    numbers["n_boundary"] = round(numbers["n_boundary"])
    rows = tuple((float(x), float(y)) for x, y in added or ())
    return Controls(**chosen, **numbers, added=rows)


def choices() -> list[Any]:
    """Drop-down lists and switches."""
    data, model = drop_down(DATASETS, _START.dataset, "dataset"), drop_down(MODELS, _START.model, "model")
    meanings = {PAPER: "the paper's variance", SIMILAR: "similar rows"}
    meaning = dcc.RadioItems(meanings, _START.meaning, id="meaning", inline=True)
    about = "How uncertain the explanation is here, or how much it changes among similar rows."
    feature = dcc.RadioItems([], 0, id="feature", inline=True)
    return [
        _labelled("Data", "A boundary given by a formula, or a table with two features.", data),
        _labelled("Model", "The model to explain; a formula is its own model.", model),
        _labelled("Meaning of the interval", about, meaning),
        _labelled("Feature", "The feature whose intervals are coloured.", feature),
    ]


def drop_down(options: Any, value: Any, name: str, **more: Any) -> Any:
    """A list of choices, one of which is always chosen."""
    return dcc.Dropdown(options, value, id=name, clearable=False, searchable=False, **more)


def dials() -> list[Any]:
    """The sliders."""
    return [
        _labelled(
            [dial.title, html.Output(id=f"{dial.name}-shown", className="shown")],
            dial.help,
            dcc.Slider(
                dial.least, dial.most, dial.step, value=dial.shown(getattr(_START, dial.name)), marks=None,
                id=dial.name, allow_direct_input=False,
            ),
        )
        for dial in SLIDERS
    ]  # fmt: skip


def _labelled(title: Any, sentence: str, control: Any) -> Any:
    heading, explained = html.Div(title, className="label"), html.P(sentence, className="help")
    return html.Div([heading, explained, control], className="control")
