"""Where the hand-written derivatives can be made wrong: their terms and their factors.

A derivative is pull, vjp or jvp of an operation, a kernel that leaves a gradient (it takes a Destination), a closed
form of autograd/norm_block.cpp or norm_jacobian.cpp, and what these call beside them. Its terms are what is added or
subtracted, and what is returned, given, stored or handed on as a whole; its factors are what is multiplied or divided
by. Only expressions that hold values count, be they numbers, SIMD batches, tensors or recorded values: not indices,
sizes and comparisons.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, replace

from syntax_tree import FUNCTIONS, unqualified

COMPARISONS = {"<", ">", "<=", ">=", "==", "!="}
CONSTRUCTIONS = {"CXXConstructExpr", "CXXTemporaryObjectExpr", "CXXFunctionalCastExpr", "CXXStaticCastExpr"}


@dataclass(frozen=True)
class Site:
    """One expression, and the larger one or the statement that it stands in."""

    kind: str  # "term" or "factor"
    path: str
    begin: int
    end: int
    function: str
    context: tuple  # (begin, end)


def value_kind(type_name):
    """"number", "batch" or "tensor" for an expression that holds values, otherwise None."""
    name = unqualified(type_name)
    if name in ("float", "double", "long double"):
        return "number"
    if re.fullmatch(r"(xsimd::)?batch<(float|double)\b[^\[\]]*>", name):
        return "batch"
    return "tensor" if name in ("Tensor", "Var") else None


def operator(node):
    """'+' for a + b and for a call of operator+, with the operands; ('', []) for anything else."""
    if node.kind in ("BinaryOperator", "CompoundAssignOperator", "UnaryOperator"):
        return node.opcode, node.children
    name = node.callee()
    if node.kind == "CXXOperatorCallExpr" and name.startswith("operator") and name != "operator()":
        return name.removeprefix("operator"), node.arguments()
    return "", []


def is_sum(node):
    """Whether the terms stand inside of it, so that it needs no mutant as a whole."""
    node = node.unwrapped()
    return operator(node)[0] in ("+", "-") or node.callee() in ("add", "subtract", "negate", "affine", "fma", "select")


def is_product(node):
    node = node.unwrapped()
    return operator(node)[0] in ("*", "/") or node.callee() in ("multiply", "divide")


def is_mention(node):
    """Whether a value is only named here, and computed where the name stands for it."""
    return node.unwrapped().kind in ("DeclRefExpr", "MemberExpr")


def body(node):
    return next((child for child in node.children if child.kind == "CompoundStmt"), None)


class Finder:
    """Collects the sites of one function's body."""

    def __init__(self, function, own_functions, sites):
        self.function = function
        self.own_functions = own_functions
        self.sites = sites
        self.constants = {}  # the id of a variable like `const Batch<T> one(T(1))` -> 1.0

    def literal(self, node):
        """The number that an expression like T(0), Batch<T>(T(1)) or `one` stands for, otherwise None."""
        node = node.unwrapped()
        if node.kind in ("FloatingLiteral", "IntegerLiteral"):
            return float(node.raw["value"])
        if node.kind == "DeclRefExpr":
            return self.constants.get(node.raw["referencedDecl"]["id"])
        if operator(node)[0] == "=":
            return self.literal(operator(node)[1][1])
        if node.callee() == "affine":  # sign's derivative is affine(v, 0.0, 0.0)
            scale, shift = (self.literal(argument) for argument in node.arguments()[1:3])
            return shift if scale == 0.0 else None
        return self.literal(node.children[0]) if node.kind in CONSTRUCTIONS and len(node.children) == 1 else None

    def term(self, node, context):
        """Adds an expression that is a term by its place; of a ? b : c, both alternatives."""
        inner = node.unwrapped()
        if inner.kind == "ConditionalOperator":
            for alternative in inner.children[1:]:
                self.term(alternative, context)
        elif self.literal(node) != 0.0:
            self.add("term", node, context)

    def whole(self, node, context):
        """Adds an expression that is computed here for use elsewhere. Tensors mostly only change their shape there."""
        if not is_sum(node) and (value_kind(node.type) != "tensor" or is_product(node)):
            self.term(node, context)

    def factor(self, node, context):
        if not is_product(node) and self.literal(node) != 1.0:
            self.add("factor", node, context)

    def add(self, kind, node, context):
        if value_kind(node.unwrapped().type) is None:
            return
        if node.place and context.place and node.place[0] == context.place[0]:
            site = Site(kind, *node.place, self.function, context.place[1:])
            known = self.sites.get((kind, *node.place))
            if known is None or site.context[1] - site.context[0] < known.context[1] - known.context[0]:
                self.sites[(kind, *node.place)] = site

    def visit(self, node):
        symbol, operands = operator(node)
        if symbol in COMPARISONS or node.kind == "ConstantExpr":
            return
        if node.kind == "VarDecl" and node.raw.get("constexpr"):
            return
        if node.kind == "CXXDefaultInitExpr" or node.callee().startswith("expect") or node.callee() == "fail":
            return
        if symbol:
            self.visit_operator(node, symbol, operands)
        elif "CallExpr" in node.kind:
            self.visit_call(node)
        elif node.kind == "ReturnStmt":
            for value in node.children:
                if not is_mention(value):
                    self.whole(value, node)
        elif node.kind == "VarDecl" and value_kind(node.type):
            self.visit_initializer(node)
        elif node.kind in ("InitListExpr", "CXXConstructExpr") and not value_kind(node.type):
            for element in node.children:
                if element.kind != "CXXDefaultInitExpr" and value_kind(element.type) in ("number", "batch"):
                    self.whole(element, node)
        for child in node.children[-1:] if node.kind == "CXXForRangeStmt" else node.children:
            self.visit(child)

    def visit_operator(self, node, symbol, operands):
        if not value_kind(operands[0].type):
            return
        if symbol in ("+", "-"):
            for operand in operands:
                self.term(operand, node)
        elif symbol in ("+=", "-="):
            self.term(operands[1], node)
        elif symbol in ("*", "/"):
            for operand in operands:
                self.factor(operand, node)
        elif symbol in ("*=", "/="):
            self.factor(operands[1], node)
        elif symbol == "=":
            self.whole(operands[1], node)

    def visit_initializer(self, node):
        """A variable's value, if it is computed there."""
        for value in node.children:
            if "const " in node.type:
                self.constants[node.raw["id"]] = self.literal(value)
            inner = value.unwrapped()
            while inner.kind in CONSTRUCTIONS and len(inner.children) == 1:
                value, inner = inner.children[0], inner.children[0].unwrapped()
            if is_product(inner) or "CallExpr" in inner.kind:
                self.whole(value, node)

    def visit_call(self, node):
        name, arguments = node.callee(), node.arguments()
        if name in ("add", "subtract", "negate"):
            for argument in arguments:
                self.term(argument, node)
        elif name in ("multiply", "divide"):
            for argument in arguments:
                self.factor(argument, node)
        elif name == "affine":  # (x, scale, shift)
            self.factor(arguments[1], node)
            for argument in arguments[1:]:
                self.term(argument, node)
        elif name == "fma":  # a b + c
            self.term(arguments[0], node)
            self.term(arguments[2], node)
            for argument in arguments[:2]:
                self.factor(argument, node)
        elif name == "select":  # (condition, a, b), or of tensors (x, mask)
            for argument in arguments[1:] if len(arguments) == 3 else arguments[:1]:
                self.term(argument, node)
        elif name == "give":
            self.term(arguments[-1], node)
        elif name == "operator()" and "Kernel<" in arguments[0].type:
            # A kernel is linear in the first tensor, the cotangent or the tangent. Others may be for results.
            self.term_of_first_tensor(arguments[1:], node)
        elif name == "operator()":  # of a lambda, such as a give() for several terms
            for argument in arguments[1:]:
                if value_kind(argument.type) != "tensor" or not is_mention(argument):
                    self.term(argument, node)
        elif name in self.own_functions:
            for argument in arguments:
                is_output = argument.raw.get("valueCategory") == "lvalue" and "const " not in argument.type
                if value_kind(argument.type) in ("number", "batch") and not is_output:
                    self.whole(argument, node)

    def term_of_first_tensor(self, arguments, context):
        for argument in arguments:
            if value_kind(argument.type) == "number":
                self.term(argument, context)
        tensors = [argument for argument in arguments if value_kind(argument.type) == "tensor"]
        if tensors:
            self.term(tensors[0], context)


def is_derivative(path, function):
    if path.startswith("autograd/norm_"):
        return function.kind != "CXXConstructorDecl"
    if path.startswith("core/kernels/"):
        return "const jnorm::Destination &" in function.type or "const Destination &" in function.type
    return function.name in ("pull", "vjp", "jvp")


def is_recorded_operation(function):
    """A function that records an operation isn't the operation's derivative, though it has a helper's name."""
    return function.kind == "FunctionDecl" and unqualified(function.type).startswith("Var (")


def find_sites(trees, relative):
    """All sites of one source and of the headers beside it. relative(path) is None for files that aren't looked at."""
    functions = defaultdict(list)  # name -> [(path, declaration)]
    for tree in trees:
        for node in tree.walk():
            if node.kind in FUNCTIONS and node.place and body(node) and node.name != "operator()":
                path = relative(node.place[0])
                if path and not is_recorded_operation(node):
                    functions[node.name].append((path, node))

    pending = [name for name, found in functions.items() if any(is_derivative(*function) for function in found)]
    roots = set(pending)
    reached, sites = set(), {}
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        for path, function in functions[name]:
            if name not in roots or is_derivative(path, function):
                mentioned = {node.referenced_function() for node in body(function).walk()}
                pending.extend(mention for mention in mentioned if mention in functions)
    for name in reached:
        for path, function in functions[name]:
            if name not in roots or is_derivative(path, function):
                Finder(name, reached, sites).visit(body(function))
    return [replace(site, path=relative(site.path)) for site in sites.values() if relative(site.path)]
