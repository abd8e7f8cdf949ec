"""The OpenAPI document: what it says is so. schemathesis looks for what it does not promise."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightdesk.house import open_house
from nightdesk.playbook import Registry
from tests.support import openapi_hooks
from tests.support.web import WebServer

PLAYBOOK = """
name: shop
when: now
risk: internal
input:
  sku: string
  price: number
  count: int
  tags: [string]
  when: {one_of: [early, late], default: null}
run: run.py:work
"""
RUN = "async def work(order, desk):\n    return None\n"
# Cases per operation and phase; with nine operations, well over two thousand in all.
EXAMPLES = 150


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[WebServer]:
    """The API of a house with a playbook whose input has a field of each kind, without any bounds."""
    folder = tmp_path / "house"
    (folder / "playbooks" / "shop").mkdir(parents=True)
    (folder / "playbooks" / "shop" / "playbook.yaml").write_text(PLAYBOOK)
    (folder / "playbooks" / "shop" / "run.py").write_text(RUN)
    (folder / "nightdesk.toml").write_text(f'[database]\nurl = "{database_url}"\n')
    opened = open_house(folder)
    # What ships besides takes inputs so large that fuzzing them tells of nothing but the limit of a body.
    house = replace(opened, registry=Registry([opened.registry.get(name) for name in ("drill", "shop")]))
    with WebServer(house) as running:
        yield running
    house.close()


@pytest.fixture
def document(shop: WebServer) -> Any:
    return httpx.get(f"{shop.url}/openapi.json", trust_env=False).json()


def test_each_playbook_says_what_it_takes(document: Any) -> None:
    kinds = document["components"]["schemas"]
    assert kinds["NewTask"]["oneOf"] == [
        {"$ref": "#/components/schemas/NewTask.drill"},
        {"$ref": "#/components/schemas/NewTask.shop"},
    ]
    asked = kinds["NewTask.shop"]["properties"]
    assert asked["playbook"]["const"] == "shop"
    assert set(asked["input"]["properties"]) == {"sku", "price", "count", "tags", "when"}
    assert kinds["NewTask.shop"]["additionalProperties"] is False


def test_every_reference_leads_somewhere_and_nothing_is_left_over(document: Any) -> None:
    named = set(re.findall(r"#/components/schemas/([\w.]+)", str(document)))
    assert named <= set(document["components"]["schemas"])
    assert not [name for name in document["components"]["schemas"] if "Validation" in name]


def test_every_operation_with_a_token_states_its_refusals(document: Any) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            responses = operation["responses"]
            for status, response in responses.items():
                expected = "application/problem+json" if int(status) >= 400 else ("application/json", "text/plain")
                assert set(response["content"]) <= ({expected} if isinstance(expected, str) else set(expected))
            if "security" in operation:
                assert {"401", "403", "422", "429", "503"} <= set(responses)
                assert responses["401"]["headers"]["WWW-Authenticate"]["required"]


@pytest.mark.timeout(300)
def test_schemathesis_finds_nothing(shop: WebServer, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), "run", f"{shop.url}/openapi.json", "--header", f"Authorization: Bearer {shop.token()}"]
    command += ["--max-examples", str(EXAMPLES), "--phases", "coverage,fuzzing", "--no-color"]
    command += ["--generation-database", "none"]
    hooks = Path(openapi_hooks.__file__)
    environment = os.environ | {"SCHEMATHESIS_HOOKS": hooks.stem, "PYTHONPATH": str(hooks.parent)}
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=280, check=False
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    generated = re.search(r"([\d,]+) generated", ran.stdout)
    assert generated is not None
    assert int(generated[1].replace(",", "")) >= 1_000, ran.stdout[-2000:]
