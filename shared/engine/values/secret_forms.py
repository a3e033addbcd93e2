r"""How a secret may be spelled: as it is, within JSON or a program's text (`\"`, `\n`, `\u00e9`), in a URL (`%2F`),
and in base64, alone or as a part of what is encoded (`user:password`).

All spellings of one secret are one regular expression. It is made when it is needed: `probes` are short plain texts,
one of which stands in every spelling, and looking for those is many times faster.
"""

import base64
import re
from functools import lru_cache

LEAST_PROBE = 3   # characters: a shorter one would be found everywhere
MOST_SLASHES = 8  # before a character that is escaped, and escaped again
MOST_SPELLED = 2 * (MOST_SLASHES + 5)  # characters for one: two escapes
LINES = (76, 64)  # characters of base64 in a line, where it is written in lines
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")  # no spelling changes them
_WORD = re.compile(r"[A-Za-z0-9]+")       # nor these, where + and / may be - and _
_RUN = re.compile(r"\\+|.", re.DOTALL)
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ESCAPED = f"\\\\{{1,{MOST_SLASHES}}}"
_BASE64 = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:/|_|%2[fF]|\\{1,8}/)"}
_CACHED = 1024


@lru_cache(_CACHED)
def probes(secret: str) -> tuple[str, ...]:
    """One of them is in every text that the pattern matches; an empty one is in every text."""
    return (_longest(_PLAIN, secret), *(_longest(_WORD, core) for core, _ in _cores(secret)))


@lru_cache(_CACHED)
def pattern(secret: str) -> str:
    plain = "".join(map(_spelled, _RUN.findall(secret)))
    encoded = ("".join(_BASE64.get(char, char) for char in core) + end for core, end in _cores(secret))
    return "|".join((plain, *encoded))


def reach(secret: str) -> int:
    """Of the longest spelling, in characters, and more."""
    return len(secret) * MOST_SPELLED + MOST_SPELLED


def _longest(runs: re.Pattern[str], text: str) -> str:
    found = max(runs.findall(text), key=len, default="")
    return found if len(found) >= LEAST_PROBE else ""


def _spelled(run: str) -> str:
    """A character, or several backslashes, which could be any number when each is taken alone."""
    if run[0] == "\\":
        return rf"(?:\\{{{len(run)},{len(run) * MOST_SLASHES}}}|(?:%5[cC]){{{len(run)}}})"
    if _PLAIN.fullmatch(run):
        return re.escape(run) if run != "~" else "(?:~|%7[eE])"
    ways = [re.escape(run), _percent(run), _ESCAPED + _unicode(run)]
    if run in _SHORT:
        ways.append(_ESCAPED + _SHORT[run])
    elif run in "\"'/":
        ways.append(_ESCAPED + run)
    elif run == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(ways)})"


def _percent(char: str) -> str:
    return "".join(f"%{_hex(f'{byte:02x}')}" for byte in char.encode("utf-8", "surrogatepass"))


def _unicode(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass").hex()
    return _ESCAPED.join(f"u{_hex(data[at : at + 4])}" for at in range(0, len(data), 4))


def _hex(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _cores(secret: str) -> list[tuple[str, str]]:
    """The characters of base64 that depend on the secret alone, for each of the three places where it can begin, and
    what may follow of it."""
    data, found = secret.encode("utf-8", "surrogatepass"), []
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode()
        begin, bits = -(-before * 8 // 6), (before + len(data)) * 8
        core = text[begin : bits // 6]
        found.append((core, "" if bits % 6 == 0 else r"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}"))
        if before == 0:
            found += [(core[at : at + line], "") for line in LINES if len(core) > line
                      for at in range(0, len(core) - line // 4, line)]
    return found
