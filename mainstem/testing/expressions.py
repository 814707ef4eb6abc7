"""Random expressions that are type-correct by construction.

`pure` asks for an expression over the event alone (a key, a loop bound); otherwise state may be read too.
Every compound expression is parenthesised: the analysis works on the syntax tree, which has no parentheses.
"""

from __future__ import annotations

from mainstem.testing.leaves import Leaves
from mainstem.testing.model import seen

_INT_OPERATORS = ((6, "+"), (6, "-"), (3, "*"), (3, "//"), (4, "%"), (1, "&"), (1, "|"), (1, "^"), (1, "<<"), (1, ">>"))
_FLOAT_OPERATORS = ((6, "+"), (6, "-"), (4, "*"), (3, "/"), (1, "//"), (1, "%"))
# What kinds of compound expressions there are, and how often each is drawn.
_INT_KINDS = (
    (10, "binary"), (1, "unary"), (1, "abs"), (2, "least"), (1, "convert"), (1, "bool"), (0.5, "null"), (0.5, "power"),
)  # fmt: skip
_FLOAT_KINDS = ((8, "binary"), (3, "ratio"), (1, "unary"), (1, "abs"), (2, "least"), (1, "math"), (1, "convert"))
_BOOL_KINDS = (
    (6, "compare"), (1, "chain"), (3, "logic"), (1, "not"), (2, "text"), (1.5, "null"), (2, "member"), (1, "one_of"),
    (0.5, "bits"),
)  # fmt: skip
_COMPARED = ((6, ("int", "int")), (2, ("float", "float")), (1, ("int", "float")), (1, ("float", "int")))
_ORDERINGS = ("<", "<=", ">", ">=", "==", "!=")
_MATH_TO_FLOAT = ("sqrt", "sin", "cos", "tan", "atan", "exp", "log", "fabs", "log10", "tanh")
_MATH_TO_INT = ("floor", "ceil", "trunc")


class Expressions(Leaves):
    """Writes expressions for one place; `scope` says what is visible there."""

    def of(self, base: str, depth: int | None = None, *, pure: bool = False) -> str:
        """An expression of type `base`, nested at most `depth` deep."""
        left = self.draw.knobs.depth if depth is None else depth
        if left <= 0 or self.draw.chance(0.25):
            return self.leaf(base, pure)
        if self.draw.chance(0.1):
            condition, value = self.condition(left - 1, pure=pure), self.of(base, left - 1, pure=pure)
            return f"({value} if {condition} else {self.leaf(base, pure)})"
        if self.draw.chance(0.08) and (call := self._call(base, left - 1, pure)):
            return call
        writers = {"int": self._int, "float": self._float, "bool": self._bool}
        return writers[base](left - 1, pure) if base in writers else self.leaf(base, pure)

    def condition(self, depth: int | None = None, *, pure: bool = False) -> str:
        """What may stand after `if`: a bool mostly, sometimes the truth of another value."""
        if self.draw.chance(0.92):
            return self.of("bool", depth, pure=pure)
        lists = self.scope.fields(lambda f: f.type.is_list and not f.type.nullable)
        if lists and self.draw.chance(0.3):
            return f"{self.scope.parameter}.{self.draw.one(lists).name}"
        if self.draw.chance(0.3) and (name := self.nullable(pure)):
            return name
        value = self.of(self.draw.one(("int", "float", "str", "bytes")), 1, pure=pure)
        return f"(not {value})" if self.draw.chance(0.3) else value

    def operand(self, operator: str, depth: int, pure: bool) -> str:
        """A right operand that mostly does not abort: zero divisors and wide shifts should stay rare."""
        if operator in ("//", "%", "*") and self.draw.chance(0.8):
            return str(self.draw.between((1, 12)))
        if operator in ("<<", ">>") and self.draw.chance(0.9):
            return str(self.draw.between((0, 5)))
        return self.of("int", depth, pure=pure)

    def maybe_null(self, base: str, pure: bool) -> str | None:
        """A value that is sometimes null; None when nothing here can be."""
        name = self.nullable(pure, base)
        if name and self.draw.chance(0.6):
            return name
        condition = self.of("bool", 1, pure=pure)
        arms = [name or self.of(base, 1, pure=pure), "None"]
        self.draw.random.shuffle(arms)
        return f"({arms[0]} if {condition} else {arms[1]})"

    def _call(self, base: str, depth: int, pure: bool) -> str | None:
        helpers = [h for h in self.world.helpers if h.result == base]
        if not helpers:
            return None
        helper = self.draw.one(helpers)
        arguments = ", ".join(self.of(p, min(depth, 1), pure=pure) for p in helper.parameters)
        return f"{helper.name}({arguments})"

    def _int(self, depth: int, pure: bool) -> str:
        kind = self.draw.weighted(_INT_KINDS)
        if kind == "unary":
            return f"({self.draw.one('-+~')}{self.of('int', depth, pure=pure)})"
        if kind == "abs":
            return f"abs({self.of('int', depth, pure=pure)})"
        if kind == "least":
            return self._least("int", depth, pure)
        if kind == "power":
            return f"({self.of('int', depth, pure=pure)} ** {self.draw.between((0, 3))})"
        if kind == "convert":
            call = self.draw.one(("int", "round", *(f"math.{f}" for f in _MATH_TO_INT)))
            return f"{call}({self.of('float', depth, pure=pure)})"
        if kind == "bool":
            return f"(int({self.of('bool', depth, pure=pure)}) + {self.of('int', depth, pure=pure)})"
        if kind == "null" and (null := self.nullable(pure, "int")):
            return f"({null} {self.draw.one('+-*')} {self.of('int', depth, pure=pure)})"
        operator = self.draw.weighted(_INT_OPERATORS)
        return f"({self.of('int', depth, pure=pure)} {operator} {self.operand(operator, depth, pure)})"

    def _float(self, depth: int, pure: bool) -> str:
        kind = self.draw.weighted(_FLOAT_KINDS)
        if kind == "ratio":
            return f"({self.of('int', depth, pure=pure)} / {self.operand('//', depth, pure)})"
        if kind == "unary":
            return f"(-{self.of('float', depth, pure=pure)})"
        if kind == "abs":
            return f"abs({self.of('float', depth, pure=pure)})"
        if kind == "least":
            return self._least("float", depth, pure)
        if kind == "math":
            return self._math(depth, pure)
        if kind == "convert":
            return f"float({self.of('int', depth, pure=pure)})"
        bases = self.draw.weighted(((4, ("float", "float")), (1, ("int", "float")), (1, ("float", "int"))))
        operator = self.draw.weighted(_FLOAT_OPERATORS)
        left, right = (self.of(b, depth, pure=pure) for b in bases)
        if operator in ("/", "//", "%") and self.draw.chance(0.7):
            right = repr(self.draw.between((1, 20)) / 4)
        return f"({left} {operator} {right})"

    def _math(self, depth: int, pure: bool) -> str:
        value = self.of("float", depth, pure=pure)
        if self.draw.chance(0.2):
            return f"({value} ** {self.draw.between((-1, 3))})"
        if self.draw.chance(0.2):
            return f"math.{self.draw.one(('pow', 'atan2', 'copysign', 'fmod'))}({value}, {self.leaf('float', pure)})"
        return f"math.{self.draw.one(_MATH_TO_FLOAT)}({value})"

    def _least(self, base: str, depth: int, pure: bool) -> str:
        arguments = [self.of(base, depth if i == 0 else 0, pure=pure) for i in range(self.draw.between((2, 3)))]
        if self.draw.chance(0.04) and (null := self.nullable(pure, base)):
            arguments[self.draw.between((0, 1))] = null
        return f"{self.draw.one(('min', 'max'))}({', '.join(arguments)})"

    def _bool(self, depth: int, pure: bool) -> str:
        kind = self.draw.weighted(_BOOL_KINDS)
        if kind == "chain":
            parts = [self.of(self.draw.one(("int", "int", "float")), depth, pure=pure) for _ in range(3)]
            return f"({parts[0]} {self.draw.one(_ORDERINGS)} {parts[1]} {self.draw.one(_ORDERINGS)} {parts[2]})"
        if kind == "logic":
            parts = [self.of("bool", depth, pure=pure) for _ in range(self.draw.between((2, 3)))]
            return f"({self.draw.one((' and ', ' or ')).join(parts)})"
        if kind == "not":
            return f"(not {self.of('bool', depth, pure=pure)})"
        if kind == "bits":
            return f"({self.of('bool', depth, pure=pure)} {self.draw.one('&|^')} {self.of('bool', depth, pure=pure)})"
        if kind == "text":
            base = self.draw.one(("str", "str", "bytes"))
            return f"({self.leaf(base, pure)} {self.draw.one(('==', '!='))} {self.leaf(base, pure)})"
        if kind == "one_of":
            return self._one_of(pure)
        if kind == "null" and (test := self._null_test(depth, pure)):
            return test
        if kind == "member" and not pure and self.scope.tables and self.scope.refs_left > 0:
            return self.membership()
        return self._comparison(depth, pure)

    def _comparison(self, depth: int, pure: bool) -> str:
        left, right = self.draw.weighted(_COMPARED)
        return f"({self.of(left, depth, pure=pure)} {self.draw.one(_ORDERINGS)} {self.of(right, depth, pure=pure)})"

    def _one_of(self, pure: bool) -> str:
        """Membership in an event's list or in a literal tuple."""
        word = self.draw.one(("in", "not in"))
        lists = self.scope.fields(lambda f: f.type.is_list)
        if lists and self.draw.chance(0.6):
            field = self.draw.one(lists)
            return f"({self.leaf(seen(field.type.base), pure)} {word} {self.scope.parameter}.{field.name})"
        base = self.draw.one(("int", "str"))
        items = ", ".join(self.leaf(base, pure) for _ in range(3))
        return f"({self.leaf(base, pure)} {word} ({items}))"

    def _null_test(self, depth: int, pure: bool) -> str | None:
        if self.draw.chance(0.6):
            name = self.nullable(pure)
            return f"({name} {self.draw.one(('is', 'is not'))} None)" if name else None
        name = self.nullable(pure, "int")
        return f"({name} {self.draw.one(_ORDERINGS)} {self.of('int', depth, pure=pure)})" if name else None
