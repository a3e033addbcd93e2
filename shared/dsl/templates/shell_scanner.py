"""Where in a shell text its outputs are. Quotes, comments, substitutions and here-documents are followed;
an output is MARK, a character no text of a playbook can hold.

It need not be perfect to be safe: whatever it answers, a value is only ever written as the name of a
variable, and no shell reads the value of a variable as program text. A wrong answer costs quoting, no more.
The exception is arithmetic, which evaluates what it is given: there only whole numbers are let in.
"""

import re
from typing import Literal

from shared.errors import Signal

Place = Literal["word", "open", "double", "single", "ansi", "number"]

MARK = "\0"
_WORD_EDGE = " \t\n;|&()<>"
_ARITHMETIC_TESTS = re.compile(r"-(?:eq|ne|lt|le|gt|ge)(?=\s|\Z)")
_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;|&()<>'\"\\])+)")
_INDEX = re.compile(r"(?<!\w)[A-Za-z_]\w*+\[(?=[^\]\n]{0,200}\]\+?=)")  # a[…]=
# What matters in each kind of frame; everything else is passed over.
_TOKENS = {
    "open": re.compile(r"\\[\s\S]|'|\"|`|\$'|\$\"|\$\(\(|\$\(|\$\{|\$\[|\(\(|\(|\)|\[\[|\]\]|#|<<<|<<|&>|=\(|&&|\|\||"
                       rf"\n|-[a-z]{{2}}|{_INDEX.pattern}|{MARK}"),
    "double": re.compile(rf"\\[\s\S]|\"|`|\$\(\(|\$\(|\$\{{|\$\[|{MARK}"),
    "single": re.compile(rf"'|{MARK}"),
    "ansi": re.compile(rf"\\[\s\S]|'|{MARK}"),
    "brace": re.compile(rf"\\[\s\S]|'|\"|`|\$\(\(|\$\(|\$\{{|\}}|\[|:(?![-=+?])|{MARK}"),
    "sum": re.compile(rf"\\[\s\S]|`|\$\(\(|\$\(|\$\{{|\(|\)\)|\)|\]|{MARK}"),
    "comment": re.compile(rf"\n|{MARK}"),
}
_OPENS = {"'": "single", '"': "double", "$'": "ansi", '$"': "double", "`": "tick", "$((": "sum", "((": "sum",
          "$[": "index", "$(": "paren", "(": "paren", "=(": "paren", "${": "brace"}
_CLOSES = {"single": "'", "double": '"', "ansi": "'", "tick": "`", "paren": ")", "brace": "}", "sum": "))",
           "group": ")", "index": "]", "test": "]]"}
_BASH = ("[[", "((", "<<<", "&>", "=(", "$'")  # what other shells do not know, or take for something else
_LIKE = {"paren": "open", "tick": "open", "test": "open", "index": "sum", "group": "sum"}


class Misplaced(Signal, TypeError):
    """The output with this index is where no value can be."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


def places(text: str) -> list[Place]:
    """For each mark how a value is written there; Misplaced where none can be."""
    return _scanned(text).found


def is_bash(text: str) -> bool:
    """Whether the text is written for bash: `[[ … ]]`, `(( … ))`, `&>`, `<<<`, `a=(…)` or `$'…'` in the open."""
    return any(word in text for word in _BASH) and _scanned(text).bash


def _scanned(text: str) -> "_Scan":
    scan = _Scan(text)
    at = 0
    while at < len(text):
        at = scan.step(at)
    return scan


class _Frame:
    __slots__ = ("first", "kind", "numbers", "quoted")

    def __init__(self, kind: str, first: int, quoted: bool) -> None:
        self.kind, self.first, self.quoted = kind, first, quoted
        self.numbers = kind in ("sum", "index", "group")


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Place] = []
        self.bash = False
        self._frames = [_Frame("open", 0, False)]
        self._documents: list[tuple[str, bool, bool]] = []  # here-documents that begin after this line

    def step(self, at: int) -> int:
        """Reads up to and with the next token."""
        frame = self._frames[-1]
        token = _TOKENS[_LIKE.get(frame.kind, frame.kind)].search(self.text, at)
        if token is None:
            return len(self.text)
        word, start, end = token.group(), token.start(), token.end()
        if word == MARK:
            self.found.append(self._place(frame, start))
            return end
        if word[0] == "\\":
            return end
        if frame.kind == "group" and word == "))":
            end, word = end - 1, ")"
        if word == _CLOSES.get(frame.kind) or (frame.kind == "comment" and word == "\n"):
            self._close()
            return start if word == "\n" else end
        if _LIKE.get(frame.kind, frame.kind) == "open":
            return self._open(frame, word, start, end)
        return self._inside(frame, word, end)

    def _open(self, frame: _Frame, word: str, start: int, end: int) -> int:
        """A token between words of a command."""
        begins = start == 0 or self.text[start - 1] in _WORD_EDGE
        self.bash = self.bash or (word in _BASH and (begins or word not in ("[[", "((")))
        if word == "\n":
            return self._skip_documents(end)
        if word == "<<":
            return self._document(start, end)
        if word == "#" and begins:
            self._push("comment")
        elif word == "[[" and begins:
            self._push("test")
        elif frame.kind == "test" and word in ("&&", "||"):
            frame.first = len(self.found)
        elif frame.kind == "test" and _ARITHMETIC_TESTS.match(self.text, start):
            frame.numbers = True
        elif word in _OPENS:
            self._push(_OPENS[word])
        elif word[-1] == "[" and word != "[[":
            self._push("index")
        return end

    def _inside(self, frame: _Frame, word: str, end: int) -> int:
        """A token inside double quotes, `${…}` or arithmetic."""
        if frame.kind == "brace" and word == "[":
            self._push("index")
        elif frame.kind == "brace" and word == ":":
            frame.numbers = True  # ${x:1:2} takes numbers
        elif word == "'" and frame.quoted:
            pass  # a plain character between double quotes
        elif word == "(":
            self._push("group")
        elif word in _OPENS:
            self._push(_OPENS[word])
        return end

    def _place(self, frame: _Frame, at: int) -> Place:
        if frame.kind == "document'":
            raise Misplaced("an output in a here-document with a quoted end: leave the quotes of the end away, "
                            "or hand the value over in env", len(self.found))
        if frame.kind == "single" or frame.kind == "ansi":
            return "single" if frame.kind == "single" else "ansi"
        if frame.numbers and frame.kind != "test":
            return "number"
        if frame.quoted or frame.kind == "comment":
            return "double"
        before, after = self.text[at - 1 : at] or " ", self.text[at + 1 : at + 2] or " "
        alone = before in _WORD_EDGE and after in _WORD_EDGE and frame.kind not in ("brace", "test")
        return "word" if alone else "open"

    def _push(self, kind: str) -> None:
        quoted = kind == "double" or (kind in ("brace", "sum", "group", "index") and self._frames[-1].quoted)
        self._frames.append(_Frame(kind, len(self.found), quoted))

    def _close(self) -> None:
        frame = self._frames[-1]
        if len(self._frames) > 1:
            self._frames.pop()
        if frame.kind == "test" and frame.numbers:
            for index in range(frame.first, len(self.found)):
                self.found[index] = "number"

    def _document(self, start: int, end: int) -> int:
        found = _HEREDOC.match(self.text, start)
        if found is None:
            return end
        word = found.group(2)
        plain = re.sub(r"\\(.)|['\"]", r"\1", word)
        self._documents.append((plain, found.group(1) == "-", plain != word))
        return found.end()

    def _skip_documents(self, at: int) -> int:
        """The bodies of the here-documents of the line that ended. Substitutions in them are read as text:
        between their quotes an output is written as it is everywhere else in a body."""
        for end, tabs, quoted in self._documents:
            while at < len(self.text):
                newline = self.text.find("\n", at)
                line = self.text[at:] if newline < 0 else self.text[at:newline]
                at += len(line) + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                for _ in range(line.count(MARK)):
                    self.found.append(self._place(_Frame("document'" if quoted else "double", 0, True), at))
        self._documents.clear()
        return at
