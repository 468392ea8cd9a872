"""XML from strangers, as a small tree: no entities, no outside files, bounded in size and depth."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from numaware.errors import InputError
from numaware.machine.textfile import check_size

# The tree of the largest machine is a few dozen levels deep, bridges included.
MAX_ELEMENTS = 1_000_000
MAX_DEPTH = 100


class _TooMuchError(ValueError):
    pass


class _BoundedBuilder(TreeBuilder):
    """Stops while parsing: a tree that is too deep or too large is never built."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._elements = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        self._elements += 1
        if self._depth > MAX_DEPTH:
            raise _TooMuchError(f"elements nested more than {MAX_DEPTH} deep")
        if self._elements > MAX_ELEMENTS:
            raise _TooMuchError(f"more than {MAX_ELEMENTS} elements")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def read_xml(data: bytes, root: str, source: str) -> Element:
    """The root element, which must be a `root`."""
    check_size(data, source)
    parser = DefusedXMLParser(target=_BoundedBuilder(), forbid_dtd=False, forbid_entities=True)
    try:
        parser.feed(data)
        tree = parser.close()
    except ParseError as error:
        raise InputError(source, f"not XML: {error}") from None
    except DefusedXmlException:
        raise InputError(source, "XML that defines entities is not accepted") from None
    except (ValueError, LookupError) as error:
        raise InputError(source, f"XML that cannot be read: {error}") from None
    if tree.tag != root:
        raise InputError(source, f"the root element is <{tree.tag[:40]}>, not <{root}>")
    return tree
