"""All playbooks of a house, by name."""

from pathlib import Path

import pytest

from nightdesk.errors import Invalid, NotFound
from nightdesk.playbook import Registry, load_registry
from tests.support.playbooks import refused, write_python, write_yaml

SHIPPED = ["blog-draft", "competitor-scan", "drill", "listing-rewrite", "review-sentiment"]
PYTHON = 'from nightdesk.playbook import playbook\n\n@playbook("x")\nasync def f(order, desk): ...\n'


def test_an_empty_house_has_what_ships(tmp_path: Path) -> None:
    assert load_registry(tmp_path).names() == SHIPPED


def test_both_kinds_are_found_and_come_in_order(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: zebra", folder="a")
    write_python(tmp_path, PYTHON)
    registry = load_registry(tmp_path)
    assert [book.name for book in registry] == registry.names() == [*SHIPPED, "x", "zebra"]
    assert len(registry) == len(SHIPPED) + 2
    assert "x" in registry
    assert "y" not in registry


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match='There is no playbook "dril"; did you mean "drill"'):
        load_registry(tmp_path).get("dril")


def test_an_unknown_name_of_any_length_is_answered() -> None:
    with pytest.raises(NotFound) as refusal:
        Registry().get("x" * 1_000_000)
    assert len(str(refusal.value)) < 200


def test_two_playbooks_of_one_name_are_refused_with_both_files(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x")
    write_python(tmp_path, PYTHON)
    assert refused(tmp_path) == ["playbooks/mine.py: the name x is taken by playbooks/x/playbook.yaml"]


def test_a_playbook_of_the_house_takes_the_place_of_one_that_ships(tmp_path: Path) -> None:
    file = write_yaml(tmp_path, "name: listing-rewrite\ntitle: Our own")
    registry = load_registry(tmp_path)
    assert registry.names() == SHIPPED
    assert (registry.get("listing-rewrite").title, registry.get("listing-rewrite").source) == ("Our own", file)


def test_the_same_playbook_may_be_added_twice(tmp_path: Path) -> None:
    registry = load_registry(tmp_path)
    registry.add(registry.get("drill"))
    assert len(registry) == len(SHIPPED)


def test_another_playbook_of_the_name_may_not(tmp_path: Path) -> None:
    registry = load_registry(tmp_path)
    with pytest.raises(Invalid, match="the name drill is taken"):
        registry.add(load_registry(tmp_path).get("drill"))


def test_an_order_of_playbooks_that_goes_round_is_refused(tmp_path: Path) -> None:
    for name, after in {"a": "b", "b": "c", "c": "a", "d": "a"}.items():
        write_yaml(tmp_path, f"name: {name}\nwhen: {{after: {after}}}", folder=name)
    found = refused(tmp_path)
    assert [fault.partition(":")[0] for fault in found] == [f"playbooks/{name}/playbook.yaml" for name in "abc"]


def test_a_file_with_the_other_ending_is_not_passed_over(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x").rename(tmp_path / "playbooks" / "x" / "playbook.yml")
    assert refused(tmp_path) == ["playbooks/x/playbook.yml: the file must be called playbook.yaml"]
