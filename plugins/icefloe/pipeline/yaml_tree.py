"""The tree of a YAML text with the line of every key, built from the parser's events.

``yaml.compose`` is not used: it ends at the first fault, while a pipeline file reports all of its faults at once, also
those above a syntax error. It refuses to give an anchor twice, which YAML allows, and recurses without a bound.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import yaml
from yaml.events import CollectionStartEvent, Event, NodeEvent

from icefloe.pipeline.problems import Problem, dotted
from icefloe.pipeline.yaml_scalar import Scalar, read_scalar

MAX_VALUES: Final = 20_000
"""Values that a file may have after its aliases and merged mappings are copied out."""

_MAX_DEPTH: Final = 20
_MAX_SKIPPED_DEPTH: Final = 1_000
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")


@dataclass(slots=True, kw_only=True)
class YamlNode:
    """A value of the tree.

    Attributes:
        line: the line of the key, or of the item of a list.
        value: the scalar; None for a mapping or a list.
        text: the scalar as it is written.
        children: the values below a mapping or a list by key or position; None for a scalar.
    """

    line: int
    value: Scalar = None
    text: str = ""
    children: "dict[str | int, YamlNode] | None" = None
    is_list: bool = False


@dataclass(slots=True, kw_only=True)
class YamlTreeBuilder:
    """Builds the tree of one document; faults of its keys, anchors and tags are collected in ``problems``."""

    problems: list[Problem] = field(default_factory=list)
    _anchors: dict[str, YamlNode] = field(default_factory=dict)
    _merged_keys: int = 0

    def build(self, events: Iterable[Event]) -> YamlNode | None:
        """The root, or None for a text without a document.

        Raises:
            yaml.YAMLError: a syntax error.
            OverflowError: reading on would take more time or memory than any pipeline file is worth.
        """
        root: YamlNode | None = None
        stream: Iterator[Event] = iter(events)
        for event in stream:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            if root is not None:
                self._report(
                    event, (), "a pipeline file holds one document: remove this second one, which '---' begins"
                )
                break
            root = self._node(next(stream), stream, ())
        return root

    def _node(self, event: Event, stream: Iterator[Event], path: tuple[str | int, ...]) -> YamlNode:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        node = YamlNode(line=_line(event))
        if isinstance(event, yaml.ScalarEvent):
            node.value, node.text = self._scalar(event, path), event.value
        elif isinstance(event, CollectionStartEvent):
            self._check_tag(event, path)
            self._fill(node, event, stream, path)
        if isinstance(event, NodeEvent) and event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _fill(
        self, node: YamlNode, event: CollectionStartEvent, stream: Iterator[Event], path: tuple[str | int, ...]
    ) -> None:
        node.children = {}
        node.is_list = isinstance(event, yaml.SequenceStartEvent)
        if len(path) >= _MAX_DEPTH:
            sentence = f"{dotted(path[:3])} is nested more than {_MAX_DEPTH} levels deep"
            self._report(event, path[:3], sentence)
            _skip(stream, sentence)
        elif node.is_list:
            for position, item in enumerate(iter(lambda: next(stream), None)):
                if isinstance(item, yaml.SequenceEndEvent):
                    break
                node.children[position] = self._node(item, stream, (*path, position))
        else:
            self._fill_mapping(node, stream, path)

    def _fill_mapping(self, node: YamlNode, stream: Iterator[Event], path: tuple[str | int, ...]) -> None:
        merged: list[YamlNode] = []
        children: dict[str | int, YamlNode] = {}
        while not isinstance(event := next(stream), yaml.MappingEndEvent):
            line = _line(event)
            key = self._key(event, stream, path)
            child = self._node(next(stream), stream, (*path, key))
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged.append(child)
            elif key in children:
                where = dotted((*path, key))
                first = children[key].line
                self._report(event, (*path, key), f"{where} is in line {first} already: keep one of the two")
            else:
                children[key] = replace(child, line=line)
        # Its own keys win, even if << comes after them.
        node.children = self._merged(merged, path) | children

    def _key(self, event: Event, stream: Iterator[Event], path: tuple[str | int, ...]) -> str:
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        self._report(event, path, "a key must be text: this one is a list, a mapping or an alias")
        self._node(event, stream, (*path, "?"))  # a level more, so that keys inside keys are bounded too
        return "?"

    def _merged(self, nodes: list[YamlNode], path: tuple[str | int, ...]) -> dict[str | int, YamlNode]:
        """The keys that ``<<`` brings; as YAML has it, the first mapping of a list wins."""
        found: dict[str | int, YamlNode] = {}
        for node in nodes:
            sources = list((node.children or {}).values()) if node.is_list else [node]
            for source in reversed(sources):
                if source.children is None or source.is_list:
                    sentence = "'<<' must be followed by an alias of a mapping"
                    self.problems.append(Problem(line=node.line, key=dotted(path), sentence=sentence))
                else:
                    self._merged_keys += len(source.children)
                    if self._merged_keys > MAX_VALUES:
                        raise OverflowError(f"aliases blow the file up to more than {MAX_VALUES} values")
                    found |= source.children
        return found

    def _alias(self, event: yaml.AliasEvent, path: tuple[str | int, ...]) -> YamlNode:
        target = self._anchors.get(event.anchor or "")
        line = _line(event)
        if target is None:
            self._report(
                event, path, f"the alias *{event.anchor} has no anchor: write &{event.anchor} at a value above it"
            )
            return YamlNode(line=line)
        return replace(target, line=line)

    def _scalar(self, event: yaml.ScalarEvent, path: tuple[str | int, ...]) -> Scalar:
        if event.tag is None and event.implicit[0]:
            return read_scalar(event.value)
        self._check_tag(event, path)
        return event.value

    def _check_tag(self, event: yaml.ScalarEvent | CollectionStartEvent, path: tuple[str | int, ...]) -> None:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._report(event, path, f"the tag {event.tag} means nothing in a pipeline file: remove it")

    def _report(self, event: Event, path: tuple[str | int, ...], sentence: str) -> None:
        self.problems.append(Problem(line=_line(event), key=dotted(path), sentence=sentence))


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _skip(stream: Iterator[Event], sentence: str) -> None:
    depth = 1
    while depth:
        event = next(stream)
        depth += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
        depth -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if depth > _MAX_SKIPPED_DEPTH:
            # For each token the parser looks at every open bracket: 500,000 of them would take it hours.
            raise OverflowError(sentence)
