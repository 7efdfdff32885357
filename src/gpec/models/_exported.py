"""Networks saved by ``torch.export``."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from gpec._validation import check_installed
from gpec.errors import CorruptFileError, InputError

__all__ = ["is_size", "load_exported"]

_TRUST = "if you trust where it comes from, pass trust_pickle=True (--trust-pickle)"
# Sizes of tensors are expressions that torch evaluates, such as "2*Symbol('s0', integer=True) + 1".
_SYMBOL = re.compile(r"Symbol\('\w+'(?:, \w+=(?:True|False))*\)")
_ARITHMETIC = re.compile(r"(?:[A-Z]\w*\(|\d+\.\d+|\w+(?!\w|\s*[(.])|[\s+\-*/%(),<>=])*")
_PLAIN_PART = re.compile(r"(?:weight|tensor)_\d+")


def load_exported(path: Path, *, trust_pickle: bool = False) -> Any:
    """The network as a Module that takes any number of rows."""
    torch = check_installed("torch", str(path), '"gpec[torch]"')
    if not trust_pickle:
        _refuse_pickles(path)
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise CorruptFileError(
            f"{path} cannot be read as a file of torch.export: {' '.join(str(error).split())}."
        ) from error
    _require_any_number(program, path)
    return _as_module(program.module())


def _as_module(graph: Any) -> Any:
    import torch

    class ExportedModule(torch.nn.Module):
        """An exported graph. Its mode is fixed at export, and its own ``eval()`` raises."""

        def __init__(self) -> None:
            super().__init__()
            self._graph = (graph,)  # in a tuple: not registered, so that eval() does not reach it

        def parameters(self, recurse: bool = True) -> Any:
            return graph.parameters(recurse)

        def forward(self, rows: Any) -> Any:
            return self._graph[0](rows)

    return ExportedModule()


def _require_any_number(program: Any, path: Path) -> None:
    """Raise unless the network takes one tensor with any number of rows."""
    names = list(program.graph_signature.user_inputs)
    if len(names) != 1:
        raise InputError(f"{path} takes {len(names)} inputs; gpec can give one tensor with all columns.")
    shape = next(node.meta["val"].shape for node in program.graph.nodes if node.name == names[0])
    if len(shape) and isinstance(shape[0], int):
        raise InputError(
            f"{path} takes exactly {shape[0]} rows at a time; export it for any number of rows: "
            'torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim("rows")},)).'
        )


def _refuse_pickles(path: Path) -> None:
    """Raise if reading the file would run pickled or compiled code; torch runs it without a warning."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            parts = [(name, name.partition("/")[2]) for name in archive.namelist()]
            if "archive_version" not in [part for _, part in parts]:
                raise InputError(f"{path} is not in the format of torch 2.8 and later; export it again, or {_TRUST}.")
            for name, part in parts:
                if part.startswith("data/aotinductor") or (
                    part.endswith(".pt") and not part.startswith("data/sample_inputs/")
                ):
                    raise InputError(f"{path} holds compiled or pickled code ({part}); {_TRUST}.")
                if part.endswith("config.json"):
                    _refuse_pickled_parts(json.loads(archive.read(name)), path)
                elif part.startswith("models/"):
                    _refuse_other_expressions(json.loads(archive.read(name)), path)
                elif part.startswith("data/sample_inputs/"):
                    torch.load(io.BytesIO(archive.read(name)), weights_only=True)
    except InputError:
        raise
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError) as error:
        raise CorruptFileError(f"{path} is damaged, or not a file of torch.export.") from error
    except Exception as error:  # torch's own UnpicklingError: the sample holds more than tensors
        raise InputError(f"{path} holds pickled Python objects; {_TRUST}.") from error


def _refuse_pickled_parts(config: Any, path: Path) -> None:
    for part in config["config"].values():
        if part["use_pickle"] or not _PLAIN_PART.fullmatch(part["path_name"]):
            raise InputError(f"{path} holds pickled Python objects; {_TRUST}.")


def is_size(text: str) -> bool:
    """Whether a text is only arithmetic with symbols, so that it is safe to evaluate."""
    return "__" not in text and _ARITHMETIC.fullmatch(_SYMBOL.sub("s", text)) is not None


def _refuse_other_expressions(tree: Any, path: Path) -> None:
    if isinstance(tree, dict):
        text = tree.get("expr_str", "")
        if not isinstance(text, str) or not is_size(text):
            raise InputError(f"{path} holds an expression that is not a size ({text!r}); {_TRUST}.")
        for item in tree.values():
            _refuse_other_expressions(item, path)
    elif isinstance(tree, list):
        for item in tree:
            _refuse_other_expressions(item, path)
