"""The database goes away, falls silent, or runs out of disk; workers wait or end themselves, and nothing is lost."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nightdesk.engine.watchdog import STALLED
from nightdesk.house import open_house
from tests.conftest import make_house_folder
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes, wait_until
from tests.support.proxy import Proxy
from tests.support.scene import Scene, timed


def bodies_run_again(scene: Scene) -> list[tuple[str, str]]:
    return [step for step, count in scene.begun().items() if count > 1]


@pytest.mark.timeout(300)
def test_postgres_restarted_and_killed_under_work(own_postgres_scene: Scene, own_postgres: PostgresServer) -> None:
    scene = own_postgres_scene
    scene.worker()
    scene.add((f"d{number}" for number in range(50)), steps=40, step_ms=250)
    scene.wait_for_working(50)
    for round_number in range(10):
        time.sleep(1)
        if round_number % 3 == 2:
            own_postgres.kill()
            own_postgres.start()
        else:
            own_postgres.restart("immediate" if round_number % 3 else "fast")
    back = time.monotonic()
    scene.wait_for({"done": 50}, 90)
    assert time.monotonic() - back < 60
    assert bodies_run_again(scene) == []


@pytest.mark.timeout(300)
def test_postgres_gone_for_more_than_a_minute(own_postgres_scene: Scene, own_postgres: PostgresServer) -> None:
    scene = own_postgres_scene
    workers = [scene.worker(concurrency="10"), scene.worker(concurrency="10")]
    scene.add((f"d{number}" for number in range(40)), steps=4, step_ms=500)
    scene.wait_for_working(10)
    own_postgres.stop("immediate")
    time.sleep(70)
    own_postgres.start()
    scene.wait_for({"done": 40}, 90)
    assert all(worker.alive for worker in workers), "a worker left although the database was only away"
    assert bodies_run_again(scene) == []


@pytest.fixture
def proxied_scene(own_postgres: PostgresServer, processes: Processes, tmp_path: Path) -> Iterator[tuple[Scene, Proxy]]:
    """A scene whose workers reach Postgres through a proxy; the test itself does not."""
    own_postgres.create_database("house")
    with Proxy(own_postgres.port) as proxy:
        make_house_folder(tmp_path / "house", own_postgres.url("house", port=proxy.port))
        direct = make_house_folder(tmp_path / "direct", own_postgres.url("house"))
        house = open_house(direct)
        scene = Scene(house, processes, tmp_path / "drill.log", worker_folder=tmp_path / "house")
        yield scene, proxy
        house.close()


@pytest.mark.timeout(240)
def test_connections_that_fall_silent_end_the_worker_and_work_resumes(proxied_scene: tuple[Scene, Proxy]) -> None:
    scene, proxy = proxied_scene
    running = scene.worker()
    scene.add((f"d{number}" for number in range(20)), steps=20, step_ms=500)
    scene.wait_for_working(20)
    proxy.silence()
    silent_at, completed = time.monotonic(), scene.completed()
    code, _ = timed(running, 85)
    assert code == STALLED
    scene.worker()  # as `nightdesk up` would
    wait_until(lambda: scene.completed() - completed, 30, "steps are completed again")
    assert time.monotonic() - silent_at < 90
    scene.wait_for({"done": 20}, 60)


@pytest.mark.timeout(180)
def test_resets_latency_and_a_black_hole_repeat_no_body(proxied_scene: tuple[Scene, Proxy]) -> None:
    scene, proxy = proxied_scene
    running = scene.worker()
    scene.add((f"d{number}" for number in range(20)), steps=30, step_ms=300)
    scene.wait_for_working(20)
    for _ in range(10):
        time.sleep(0.5)
        proxy.reset()
    proxy.latency_seconds = 0.1
    time.sleep(3)
    proxy.latency_seconds = 0
    proxy.silence(new=True)
    time.sleep(12)
    proxy.heal()
    scene.wait_for({"done": 20}, 90)
    assert running.alive
    assert bodies_run_again(scene) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB, as a folder. Making one takes root, or sudo without a password; the README says so."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and subprocess.run([*as_root, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk takes root, or sudo without a password")
    folder = tmp_path / "small"
    folder.mkdir()
    owner = f"uid={os.geteuid()},size=24m"
    subprocess.run([*as_root, "mount", "-t", "tmpfs", "-o", owner, "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run([*as_root, "umount", "-l", str(folder)], check=True)


@pytest.mark.timeout(180)
def test_a_full_disk_stops_intake_first_and_costs_no_task(
    small_disk: Path, processes: Processes, tmp_path: Path
) -> None:
    house = open_house(make_house_folder(small_disk / "house", f"sqlite:///{small_disk / 'house' / 'nightdesk.db'}"))
    scene = Scene(house, processes, tmp_path / "drill.log")
    scene.worker()
    scene.add((f"d{number}" for number in range(30)), steps=30, step_ms=300)
    scene.wait_for_working(30)
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk)
    ballast.write_bytes(b"\0" * (free.f_bavail * free.f_frsize - 1_000_000))
    refused = processes.run(house.home, "add", "drill", '{"name": "late"}')
    assert refused.returncode == 1
    assert "disk" in refused.stderr.lower()
    _fill(small_disk / "rest")
    time.sleep(5)
    (small_disk / "rest").unlink()
    ballast.unlink()
    scene.wait_for({"done": 30}, 60)
    assert processes.run(house.home, "add", "drill", '{"name": "late"}').returncode == 0
    scene.wait_for({"done": 31}, 20)
    house.close()


def _fill(file: Path) -> None:
    """Leave nothing at all."""
    with suppress(OSError), file.open("wb", buffering=0) as rest:
        while True:
            rest.write(b"\0" * 4096)
