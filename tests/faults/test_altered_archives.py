"""Archives altered in every way, with a valid checksum: a typed error or a sound result, in bounded memory and time."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from altered_archives import MAX_BYTES, write_files, write_variants

VARIANTS = int(os.environ.get("GPEC_ARCHIVES", "200"))
_CHILDREN = max(2, VARIANTS // 250)


@pytest.mark.skipif(sys.platform == "win32", reason="the memory of a process is measured on POSIX")
def test_altered_archives(tmp_path):
    write_files(tmp_path)
    program = Path(__file__).parents[1] / "altered_archives.py"
    lines = []
    for seed in range(_CHILDREN):
        variants = write_variants(tmp_path, seed, VARIANTS // _CHILDREN)
        command = [sys.executable, str(program), str(tmp_path), str(variants)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)  # noqa: S603
        assert done.returncode == 0, done.stderr[-2000:]
        shutil.rmtree(variants)
        lines += [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == VARIANTS // _CHILDREN * _CHILDREN
    results = Counter(line["result"] for line in lines)
    assert set(results) == {"read", "refused"}, [line for line in lines if line["result"] not in ("read", "refused")]
    slowest = max(lines, key=lambda line: line["seconds"] / line["usual"])
    largest = max(lines, key=lambda line: line["grown"])
    print(dict(results), f"{slowest['seconds'] / slowest['usual']:.1f} times, {largest['grown'] / 1e6:.0f} MB")
    assert slowest["seconds"] < 20 * slowest["usual"], slowest
    assert largest["grown"] < MAX_BYTES + 10**8, largest
