"""An eye on free space, so that intake stops before the database must."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from nightdesk.settings import DiskSettings

_FRESH_SECONDS = 1.0
_MB = 1_000_000


@dataclass(frozen=True)
class Free:
    bytes: int
    percent: float


class DiskGuard:
    def __init__(self, folder: Path, settings: DiskSettings) -> None:
        self._folder = folder
        self._settings = settings
        self._read: tuple[float, Free] | None = None

    def free(self) -> Free:
        """Free space where the folder lies, at most a second old."""
        now = time.monotonic()
        if self._read is None or now - self._read[0] >= _FRESH_SECONDS:
            usage = shutil.disk_usage(self._folder)
            self._read = now, Free(usage.free, 100 * usage.free / max(usage.total, 1))
        return self._read[1]

    def low(self) -> bool:
        """Whether nothing more may be accepted. A large disk may be nearly full and still have room enough."""
        free = self.free()
        return free.percent < self._settings.stop_percent and free.bytes < self._settings.stop_mb * _MB

    def warn(self) -> bool:
        return self.low() or self.free().percent < self._settings.warn_percent
