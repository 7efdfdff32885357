"""One list of colours: the style sheets have none of their own, and words can be read on their ground."""

import re
import runpy

import pytest

from package_sources import PACKAGE

COLORS = runpy.run_path(str(PACKAGE / "_colors.py"))
DARK, LIGHT, css = (COLORS[name] for name in ("DARK", "LIGHT", "css"))

SHEETS = [PACKAGE / "report" / "page.css", PACKAGE / "app" / "assets" / "style.css", *(PACKAGE / "report").glob("*.js")]


def test_sheets_and_scripts_take_their_colours_from_python():
    assert SHEETS
    for sheet in SHEETS:
        text = sheet.read_text(encoding="utf-8")
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b[;,\s]", text) == [], sheet.name
        used = set(re.findall(r"var\(--([a-z]+)\)", text)) | set(re.findall(r'colour\("([a-z]+)"\)', text))
        assert used - set(LIGHT) == set(), sheet.name


def test_every_colour_is_used():
    text = "".join(sheet.read_text(encoding="utf-8") for sheet in SHEETS)
    assert [name for name in LIGHT if f"--{name})" not in text and f'"{name}"' not in text] == []
    assert set(DARK) < set(LIGHT)
    assert css({"ink": "#000000", "soft": "#111111"}) == "--ink: #000000; --soft: #111111;"


def luminance(color):
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colors", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
def test_contrast(colors):
    for name, least in {"ink": 7, "soft": 4.5, "accent": 4.5, "up": 3, "neutral": 3}.items():
        bright, dark = sorted((luminance(colors[name]), luminance(colors["paper"])), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= least, name
