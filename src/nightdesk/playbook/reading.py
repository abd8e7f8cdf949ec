"""Reading a playbook's YAML into plain data, remembering the line of every key.

YAML has traps that a file edited at night should not spring: here `no` is a word and not false, `1:30` is not
ninety, the same key twice is a fault, and neither aliases nor tags are known.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from nightdesk.canonical import Json
from nightdesk.playbook.faults import Fault, Path

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Knows null, true, false and plain numbers; everything else is text."""


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern in {
    "null": "|~|null|Null|NULL",
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?[0-9]{1,18}",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
}.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), None)

_SCALARS: dict[str, Any] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": int,
    _TAG + "float": float,
    _TAG + "str": str,
}


@dataclass
class Reading:
    """The data of one file, the line of every path in it, and the faults of the text itself."""

    data: dict[str, Json] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def line(self, path: Path) -> int:
        """The line of the path, or of the nearest thing above it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str) -> Reading:
    reading = Reading()
    try:
        node = _Loader(text).get_single_node()
        data = _value(node, (), reading) if node else None
    except yaml.MarkedYAMLError as error:
        reading.lines[()] = error.problem_mark.line + 1 if error.problem_mark else 1
        reading.faults.append(((), f"the YAML {error.problem or error.context}"))
        return reading
    except (yaml.YAMLError, RecursionError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else "has a character that is not text"
        reading.faults.append(((), f"the YAML {problem}"))
        return reading
    if isinstance(data, dict):
        reading.data = data
    else:
        reading.faults.append(((), "the file must be a mapping that begins with `name: ...`"))
    return reading


def _value(node: yaml.Node, path: Path, reading: Reading) -> Json:
    reading.lines.setdefault(path, node.start_mark.line + 1)
    if id(node) in reading.seen:  # followed freely, aliases could nest without end or grow without bound
        reading.faults.append((path, "is an alias (*); write the value out"))
        return None
    reading.seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, reading)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, position), reading) for position, item in enumerate(node.value)]
    try:
        return _SCALARS[node.tag](node.value)
    except (KeyError, ValueError):
        reading.faults.append((path, "has a tag (!) that is not known here; write the plain value"))
        return None


def _mapping(node: yaml.MappingNode, path: Path, reading: Reading) -> dict[str, Json]:
    data: dict[str, Json] = {}
    for key_node, value_node in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        line = key_node.start_mark.line + 1
        first = reading.lines.setdefault((*path, key), line)
        if key_node.tag != _TAG + "str":
            reading.faults.append(((*path, key), "must be a word; put it in quotes"))
        elif key in data:
            reading.faults.append(((*path, key), f"is there twice, in line {first} and in line {line}"))
        else:
            data[key] = _value(value_node, (*path, key), reading)
    return data
