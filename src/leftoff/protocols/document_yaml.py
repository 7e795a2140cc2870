"""Read and write YAML as people and agents write it.

The tree is that of workflow files. But of two equal keys the last one counts, several documents are read as one, tags
are left out, and each repair is reported. Dates, `yes` and `007` are texts: what is written again must look the same.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from leftoff.protocols.loose_values import Rejected, Repairs, shown_under, shown_value
from leftoff.workflow.yaml_source import BadDefinition, Node, Problems, Tree

_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})\Z")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]\d{1,4})?\Z")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True}
_WORDS.update({"TRUE": True, "false": False, "False": False, "FALSE": False})


class _LooseTree(Tree):
    deepest, most_nodes = 100, 2_000_000

    def __init__(self, text: str, path: str, repairs: Repairs) -> None:
        super().__init__(text, Problems(path))
        self.repairs = repairs
        self.roots: list[Any] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}
        elif isinstance(event, yaml.DocumentEndEvent) and self.root is not None:
            self.roots.append(self.root.plain())
            self.root = None
        else:
            super().take(event)

    def _report(self, node: Node, line: str) -> None:
        self.repairs.add(f"line {node.line}: {line}")

    def _key(self, node: Node) -> Node:
        if not node.scalar:
            raise self.problems.fatal(node.line, node.column, "a key is a list or a mapping")
        if node.kind != "text":
            node.text = {None: "null", True: "true", False: "false"}.get(node.value, str(node.value))
            self._report(node, f"the key {node.text} is read as text.")
        return node

    def _pair(self, node: Node, key: Node, value: Node) -> None:
        if key.text in node.value:
            old = shown_under(key.text, node.value[key.text][1].plain())
            self._report(value, f"{shown_value(key.text)} is there twice; the last one counts, not {old}.")
        node.value[key.text] = (key, value)

    def _merge(self, node: Node) -> None:
        """Leave `<<` as it is written."""

    def _scalar(self, event: Any) -> Node:
        plain = event.style in (None, "") and event.tag is None
        value = plain_yaml(event.value) if plain else event.value
        node = Node("text" if isinstance(value, str) else "plain", value, event.start_mark, text=event.value)
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._bad_tag(event)
        return node

    def _bad_tag(self, event: Any) -> None:
        self.repairs.add(f"line {event.start_mark.line + 1}: the tag {shown_value(event.tag)} is left out.")


def plain_yaml(text: str) -> Any:
    """Return the value of a word without quotes: null, a truth value, a number, else text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    value = float(text) if _FLOAT.match(text) else None
    return value if value is not None and value - value == 0 else text


def parse_yaml(text: str, path: str, repairs: Repairs) -> Any:
    """Return the document in a text. Several are merged; a later one wins."""
    tree = _LooseTree(text, path, repairs)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            tree.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise Rejected(f"{path}{where}: this is not YAML: {error.problem or error.context}.") from None
    except BadDefinition as error:
        raise Rejected(f"{error.message}.") from None
    except yaml.YAMLError as error:
        raise Rejected(f"{path}: this is not YAML: {str(error).splitlines()[0]}.") from None
    documents = [document for document in tree.roots if document is not None]
    if len(documents) < 2:
        return documents[0] if documents else None
    number = len(documents)
    if not all(isinstance(document, dict) for document in documents):
        raise Rejected(f"{path} holds {number} documents, not all of which have keys.")
    repairs.add(f"{number} documents in one file are read as one; where they differ, the last one counts.")
    out: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            if key in out and out[key] != value:
                old = shown_under(key, out[key])
                repairs.add(f"{shown_value(key)} is in two of them; the last one counts, not {old}.")
            out[key] = value
    return out


def dump_yaml(document: Any) -> str:
    """Write a document in block style, with its keys in their order and without aliases."""

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    out = yaml.dump(
        document, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )
    return str(out)
