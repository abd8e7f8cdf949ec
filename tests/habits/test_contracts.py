"""The rooms import only downwards."""

import subprocess
import sys
from pathlib import Path


def test_the_import_contracts_of_pyproject_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    root = Path(__file__).parents[2]
    done = subprocess.run([program, "--no-logo", "--no-cache"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
