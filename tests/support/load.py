"""Many submissions to a real web process: at a pace, or as fast as it takes them; and how each was answered."""

import http.client
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import psutil

from nightdesk.guard.tokens import create_token
from nightdesk.house import House
from tests.support.postgres import free_port
from tests.support.processes import Processes, Running, wait_until


@dataclass(frozen=True)
class Answer:
    """`seconds` counts from the moment at which the request was due, so that a queue of requests shows."""

    status: int
    seconds: float


@dataclass(frozen=True)
class Load:
    answers: list[Answer]
    seconds: float

    @property
    def statuses(self) -> dict[int, int]:
        return dict(Counter(answer.status for answer in self.answers))

    @property
    def per_second(self) -> float:
        return len(self.answers) / self.seconds

    def percentile(self, percent: int) -> float:
        """Seconds within which so many in a hundred were answered."""
        return statistics.quantiles([answer.seconds for answer in self.answers], n=100)[percent - 1]


@dataclass(frozen=True)
class Web:
    """A web process, and a token for it."""

    running: Running
    port: int
    token: str

    def post(self, names: Iterable[str], *, connections: int, per_second: float | None = None) -> Load:
        """Submit a drill for each name over so many kept connections, in order; at a pace if one is given."""
        began = time.monotonic()
        orders: SimpleQueue[tuple[float, str]] = SimpleQueue()
        for number, name in enumerate(names):
            orders.put((began + number / per_second if per_second else 0.0, name))
        answers: list[Answer] = []
        clients = [threading.Thread(target=self._client, args=(orders, answers)) for _ in range(connections)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return Load(answers, time.monotonic() - began)

    def resident_mb(self) -> float:
        return float(psutil.Process(self.running.pid).memory_info().rss) / 1e6

    def _client(self, orders: "SimpleQueue[tuple[float, str]]", answers: list[Answer]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while True:
            try:
                due, name = orders.get_nowait()
            except Empty:
                connection.close()
                return
            time.sleep(max(0.0, due - time.monotonic()))
            since = due or time.monotonic()
            answers.append(Answer(self._submit(connection, name), time.monotonic() - since))

    def _submit(self, connection: http.client.HTTPConnection, name: str) -> int:
        """The status; 0 if there was no answer."""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": name, "Content-Type": "application/json"}
        body = json.dumps({"playbook": "drill", "input": {"name": name}})
        try:
            connection.request("POST", "/v1/tasks", body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0
        return answer.status


def start_web(house: House, processes: Processes) -> Web:
    """`nightdesk web` for the house, once it is ready."""
    port = free_port()
    running = processes.start(house.home, "web", "--port", str(port))
    wait_until(lambda: _is_ready(port), 30, f"the web process is ready\n{running.output()}")
    token = create_token(house.db, house.clock, "load", ("submit",), actor="test").secret
    return Web(running, port, token)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
