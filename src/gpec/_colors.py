"""The colours of plots, reports and the app: Okabe and Ito's palette, safe for colour-blind readers."""

from __future__ import annotations

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
UP, DOWN = PALETTE[5], PALETTE[0]  # vermillion raises the model's answer, blue lowers it
INK, SOFT, GREY, FAINT = "#1D232B", "#59636E", "#888888", "#D8DDE3"
UNCERTAINTY = "cividis"  # dark is certain, bright is uncertain
DIVERGING = "RdBu_r"  # red raises the model's answer, blue lowers it

# The variables of the style sheets, on a light and on a dark ground.
LIGHT = {
    "ink": INK, "soft": SOFT, "neutral": GREY, "line": FAINT, "paper": "#FFFFFF", "shade": "#F5F7F9", "mark": "#E8F1F8",
    "up": UP, "down": DOWN, "similar": PALETTE[4], "accent": "#005A8C", "warning": "#A33B00",
}  # fmt: skip
DARK = {
    "ink": "#E4E7EB", "soft": "#A3ADB8", "neutral": "#77828E", "line": "#39424D", "paper": "#15191E",
    "shade": "#1D232A", "mark": "#1B3346", "up": "#F08A3C", "down": "#56B4E9", "accent": "#7CC4F0",
}  # fmt: skip


def css(colors: dict[str, str]) -> str:
    """The colours as the declarations of CSS variables."""
    return " ".join(f"--{name}: {color};" for name, color in colors.items())
