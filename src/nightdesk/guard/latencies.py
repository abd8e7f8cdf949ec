"""How long answers take, as one process sees it: so that a lane that answers, but far too slowly, is noticed too."""

import threading
from collections import defaultdict, deque
from datetime import datetime, timedelta
from math import ceil

_ANSWERS, _FEWEST_ANSWERS, _ANSWERS_SECONDS = 50, 20, 600


class Latencies:
    """How long this process has waited for its last answers, per provider, model and lane."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, str], deque[tuple[datetime, float]]] = defaultdict(
            lambda: deque(maxlen=_ANSWERS)
        )

    def note(self, at: datetime, provider: str, model: str, lane: str, seconds: float) -> None:
        with self._lock:
            self._answers[provider, model, lane].append((at, seconds))

    def slow(self, at: datetime, provider: str, model: str, lane: str, bound_seconds: float) -> bool:
        """Whether one in twenty took longer than this. Having said so it starts over, so ask outside of transactions,
        which may be repeated."""
        oldest = at - timedelta(seconds=_ANSWERS_SECONDS)
        with self._lock:
            answers = self._answers[provider, model, lane]
            seconds = sorted(taken for moment, taken in answers if moment > oldest)
            if len(seconds) < _FEWEST_ANSWERS or seconds[ceil(0.95 * len(seconds)) - 1] <= bound_seconds:
                return False
            answers.clear()
            return True
