"""Intake stops only when free space is short both as a share and in megabytes."""

import shutil
from pathlib import Path

import pytest

from nightdesk.guard.disk import DiskGuard
from nightdesk.settings import DiskSettings

_ALL_MB = 10**12


def _guard(folder: Path, **limits: float) -> DiskGuard:
    return DiskGuard(folder, DiskSettings.model_validate(limits))


@pytest.mark.parametrize(
    ("stop_percent", "stop_mb", "low"), [(100, _ALL_MB, True), (100, 0, False), (0, _ALL_MB, False), (0, 0, False)]
)
def test_low_needs_both_limits_passed(tmp_path: Path, stop_percent: float, stop_mb: int, low: bool) -> None:
    guard = _guard(tmp_path, warn_percent=0, stop_percent=stop_percent, stop_mb=stop_mb)
    assert guard.low() == low
    assert guard.warn() == low


def test_it_warns_before_it_stops(tmp_path: Path) -> None:
    guard = _guard(tmp_path, warn_percent=100, stop_percent=0)
    assert guard.warn()
    assert not guard.low()


def test_free_space_is_that_of_the_folders_disk(tmp_path: Path) -> None:
    guard = _guard(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    assert guard.free().bytes == pytest.approx(usage.free, rel=0.05)
    assert guard.free().percent == pytest.approx(100 * usage.free / usage.total, rel=0.05)


def test_within_a_second_it_is_read_once(tmp_path: Path) -> None:
    guard = _guard(tmp_path)
    assert guard.free() is guard.free()
