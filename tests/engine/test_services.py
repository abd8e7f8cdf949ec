"""Services: started and stopped in one way, tried again after a failure."""

import threading
import time
from itertools import pairwise

from nightdesk.engine.services import Service


def test_a_service_that_fails_is_tried_again_and_an_impatient_one_without_growing_pauses() -> None:
    calls: list[float] = []
    enough = threading.Event()

    def fail() -> None:
        calls.append(time.monotonic())
        if len(calls) == 5:
            enough.set()
        raise RuntimeError("not now")

    service = Service("test", 0.05, fail, patient=False)
    service.start()
    assert enough.wait(5)
    service.stop()
    gaps = [after - before for before, after in pairwise(calls)]
    assert max(gaps[1:]) < 10 * 0.05


def test_stopping_twice_or_before_the_start_does_nothing() -> None:
    service = Service("test", 60, lambda: None)
    service.stop()
    service.start()
    service.stop()
    service.stop()
