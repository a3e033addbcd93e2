"""What every operation of a template costs, in units of at most about 50 ns (`tests/property/fuzz/templates.py` looks).

A call costs its base, and then by what it reads: 256ths of a unit for each character and each element. Reading is
`top` when only the elements of a list are looked at, `deep` when it goes to the last leaf. What an operation makes is
charged in addition (`Context.sized`), and what does not follow from the sizes alone by the operation itself.
"""

from typing import Literal, NamedTuple

Reads = Literal["nothing", "top", "deep"]
SHIFT = 8          # rates are 256ths of a unit
ELEMENT = 2        # nodes that a leaf counts when a value is walked
CONTAINER = 28     # nodes that a list or mapping counts
FLOAT = 40         # characters that a float counts: writing one is slow
INTEGER = 8        # and any other number
NODE = 1           # units of a node of the template in one step of a loop, or in one evaluation
RENDER = 20        # units of an evaluation, whatever it does
STEP = 2           # units of a loop's step beside its nodes
OPERATOR = 8
FIELD = 80         # of a format text
MADE_CHAR = 5      # right shifts of what an operation makes
MADE_ELEMENT = 5
COMPARED_CHAR = 8  # right shift: comparing texts is a memcmp
SEARCHED = 7       # right shift of the product, where a search can go back for every place


class Cost(NamedTuple):
    base: int = 52
    reads: Reads = "deep"
    char: int = 16
    element: int = 0
    node: int = 128      # of those a deep walk counts
    sorts: bool = False  # elements, nodes and characters are looked at log2 n times
    letter: int = 0      # of a text that is itself taken as a list of characters; 0: as `char`


_NONE = Cost(30, "nothing")
_TEXT = Cost(char=64, node=512)
_FLAT = Cost(reads="top", char=512, element=128)
_CALLS = Cost(40, "top", 1024, 1024)
_ORDER = Cost(40, "deep", 2, 1536, 4, sorts=True, letter=6144)

_NOTHING = ("abs", "count", "first", "last", "length")
_TEXTS = ("capitalize", "center", "e", "escape", "format", "identifier", "indent", "lower", "replace", "trim", "upper")
_CALLING = ("map", "reject", "rejectattr", "select", "selectattr")
FILTER_COSTS: dict[str, Cost] = {
    **dict.fromkeys(_NOTHING, _NONE), **dict.fromkeys(_TEXTS, _TEXT), **dict.fromkeys(_CALLING, _CALLS),
    **dict.fromkeys(("groupby", "max", "min", "sort"), _ORDER), **dict.fromkeys(("list", "reverse"), _FLAT),
    "b64decode": Cost(char=32), "b64encode": Cost(char=64), "batch": Cost(reads="top", char=1024, element=512),
    "d": Cost(20, "nothing"), "default": Cost(20, "nothing"), "dictsort": Cost(52, "deep", 2, 4096, 8, sorts=True),
    "filesizeformat": Cost(char=64), "float": Cost(100, char=64), "fromjson": Cost(char=512),
    "int": Cost(120, char=512), "items": Cost(reads="top", char=512, element=384),
    "join": Cost(char=24, element=256, letter=2048), "round": Cost(50, "nothing"),
    "slice": Cost(reads="top", char=512, element=256),
    "string": Cost(char=64, node=512), "sum": Cost(reads="top", char=2048, element=2048), "title": Cost(char=1024),
    "tojson": Cost(90, char=32, node=96), "truncate": Cost(60), "unique": Cost(52, "deep", 24, 2048, 0, letter=2560),
    "urlencode": Cost(char=1024, element=4096, node=256), "wordcount": Cost(char=768),
}  # fmt: skip

_SEEN = Cost(30, "nothing")
_COMPARES = Cost(40, "deep", 2)
TEST_COSTS: dict[str, Cost] = {
    **dict.fromkeys(("boolean", "defined", "divisibleby", "even", "false", "float", "integer", "iterable", "mapping",
                     "none", "number", "odd", "sameas", "sequence", "string", "true", "undefined"), _SEEN),
    **dict.fromkeys(("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "le", "lessthan",
                     "lt", "ne"), _COMPARES),
    "in": Cost(30, "nothing"), "lower": _TEXT, "upper": _TEXT,
}  # fmt: skip

METHOD_COSTS: dict[str, Cost] = {
    **dict.fromkeys(("capitalize", "casefold", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier",
                     "islower", "isnumeric", "isspace", "istitle", "isupper", "lower", "title", "upper"),
                    Cost(36, "top", 64)),
    "swapcase": Cost(36, "top", 128),
    **dict.fromkeys(("count", "find", "index", "partition"), Cost(36, "top", 48, 256)),
    **dict.fromkeys(("rfind", "rindex", "rpartition", "rsplit", "lstrip", "rstrip", "strip"), Cost(36, "top", 48)),
    **dict.fromkeys(("endswith", "startswith", "removeprefix", "removesuffix"), Cost(36, "top", 2)),
    **dict.fromkeys(("split", "splitlines", "replace", "format", "center", "ljust", "rjust", "zfill"),
                    Cost(36, "top", 32)),
    "join": Cost(36, "top", 16), "copy": Cost(36, "top", 0, 64), "get": Cost(14, "nothing"),
    "items": Cost(36, "top", 0, 384), "keys": Cost(36, "top", 0, 64), "values": Cost(36, "top", 0, 64),
    "isoformat": Cost(36, "nothing"), "date": Cost(36, "nothing"), "cycle": Cost(30, "nothing"),
    "changed": Cost(30, "nothing"),
}  # fmt: skip
FUNCTION_COSTS: dict[str, Cost] = {
    "range": Cost(36, "nothing"), "dict": Cost(36, "top", 2048, 2048), "namespace": Cost(30, "top", 1024, 1024),
}
