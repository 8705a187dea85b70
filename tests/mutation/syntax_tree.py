"""A source's syntax tree, as clang prints it: expressions with their types and their places in the text.

Templates are looked at in their instantiations, where no type is open any more; every instantiation of an expression
has the same place in the text.
"""

import json
import subprocess
import sys

sys.setrecursionlimit(100_000)

# What clang puts around an expression without a word of its own in the text.
WRAPPERS = {"ImplicitCastExpr", "MaterializeTemporaryExpr", "CXXBindTemporaryExpr", "ExprWithCleanups",
            "FullExpr", "SubstNonTypeTemplateParmExpr"}
FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"}


class ParseFailed(Exception):
    """Clang doesn't take the source."""


class Node:
    """One node: its kind, name and type, its children, and (path, begin, end) of its text unless a macro wrote it."""

    __slots__ = ("kind", "name", "raw", "place", "children")

    def __init__(self, raw, state):
        self.raw = raw
        self.kind = raw.get("kind", "")
        self.name = raw.get("name", "")
        _position(raw.get("loc"), state)
        begin = _position(raw.get("range", {}).get("begin"), state)
        end = _position(raw.get("range", {}).get("end"), state)
        same_file = begin and end and begin[0] == end[0]
        self.place = (begin[0], begin[1], end[1] + end[2]) if same_file else None
        self.children = [Node(child, state) for child in raw.pop("inner", []) if child]

    @property
    def type(self):
        types = self.raw.get("type", {})
        return types.get("desugaredQualType") or types.get("qualType", "")

    @property
    def opcode(self):
        return self.raw.get("opcode", "")

    def unwrapped(self):
        """The expression without parentheses and without what the compiler added."""
        node = self
        while node.children and (node.kind in WRAPPERS or node.kind == "ParenExpr" or node._is_copy()):
            node = node.children[0]
        return node

    def _is_copy(self):
        return (self.kind == "CXXConstructExpr" and len(self.children) == 1
                and unqualified(self.children[0].type) == unqualified(self.type))

    def callee(self):
        """The name of the function that a call calls, or ''. An operator's is 'operator+'."""
        if not self.children or "Call" not in self.kind:
            return ""
        return self.children[0].unwrapped().referenced_function()

    def referenced_function(self):
        """The function's name, if this node is a mention of one."""
        if self.kind == "MemberExpr" and (self.type == "<bound member function type>" or "(" in self.type):
            return self.name
        target = self.raw.get("referencedDecl", {})
        return target.get("name", "") if target.get("kind") in FUNCTIONS else ""

    def arguments(self):
        """A call's arguments; of an operator, its operands."""
        return [child for child in self.children[1:] if child.kind != "CXXDefaultArgExpr"]

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()


def _position(location, state):
    """(path, offset, length) of a location. Clang names the file only where it differs from the one before."""
    if not location:
        return None
    if "spellingLoc" in location or "expansionLoc" in location:
        _position(location.get("spellingLoc"), state)
        _position(location.get("expansionLoc"), state)
        return None
    state["file"] = location.get("file", state["file"])
    return (state["file"], location["offset"], location["tokLen"]) if "offset" in location else None


def unqualified(name):
    """A type's name without const, & and namespaces that every type here is in."""
    return name.replace("const ", "").replace("jnorm::", "").strip(" &")


def parse(command, folder, namespace):
    """The trees of all that a source and its headers declare in a namespace."""
    # Clang 14 crashes when it prints a conversion by a consteval constructor, as fmt's format strings have.
    arguments = command + ["-fsyntax-only", "-w", "-DFMT_CONSTEVAL=", "-Xclang", "-ast-dump=json", "-Xclang",
                           f"-ast-dump-filter={namespace}::"]
    result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise ParseFailed(result.stderr[-3000:])
    text = result.stdout
    decoder, offset, trees = json.JSONDecoder(), 0, []
    while offset < len(text):
        raw, offset = decoder.raw_decode(text, offset)
        trees.append(Node(raw, {"file": ""}))
        while offset < len(text) and text[offset].isspace():
            offset += 1
    return trees
