"""Every line by which anybody may do anything, taken away one at a time: of which cell is it missed?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shared.bus.permissions import ACCOUNT, CLOSED, Account, Export, Grant, Import
from shared.bus.subject import covers
from tests.integration.broker_auth.matrix import Cell, sample

LISTS = ("publish", "subscribe", "publish_not", "subscribe_not")


class Line(NamedTuple):
    """`where`: one of LISTS, `exports` or `imports`."""

    account: str
    user: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.user or self.account} {self.where} {self.text}"


def lines(accounts: Sequence[Account]) -> Iterator[Line]:
    for account in accounts:
        for user, grant in account.users.items():
            for where in LISTS if grant is not None else ():
                yield from (Line(account.name, user, where, text) for text in getattr(grant, where))
        for where in ("exports", "imports"):
            yield from (Line(account.name, "", where, _text(each)) for each in getattr(account, where))


def without(accounts: Sequence[Account], line: Line) -> list[Account]:
    changed = [_less(account, line) if account.name == line.account else account for account in accounts]
    assert changed != list(accounts), f"nothing is missing: {line}"
    return changed


def cell(accounts: Sequence[Account], line: Line) -> Cell | None:
    """The one that tells. None: what is heard of the broker's own account."""
    match line.where:
        case "publish" | "publish_not":
            return Cell(line.user, "publish", sample(line.text))
        case "subscribe" | "subscribe_not":
            return Cell(line.user, "hear", line.text if line.text == ">" else sample(line.text))
        case "imports":
            importer = next(account for account in accounts if account.name == line.account)
            return _through(importer, next(each for each in importer.imports if _text(each) == line.text))
    wanted = line.text.partition(" ")[2]
    for account in accounts:
        for each in account.imports:
            if each.account == line.account and covers(wanted, each.subject) and _text(each).split()[0] in line.text:
                return _through(account, each)
    raise AssertionError(f"nobody imports what {line.account} offers: {line.text}")


def _through(account: Account, wanted: Import) -> Cell | None:
    if wanted == CLOSED:
        return None
    assert wanted.account == ACCOUNT
    action = "publish" if wanted.kind == "service" else "hear"
    return Cell(next(iter(account.users)), action, sample(wanted.to or wanted.subject))  # type: ignore[arg-type]


def _less(account: Account, line: Line) -> Account:
    if line.where in ("exports", "imports"):
        return replace(account, **{line.where: tuple(x for x in getattr(account, line.where) if _text(x) != line.text)})
    grant = account.users[line.user]
    assert isinstance(grant, Grant)
    less = replace(grant, **{line.where: tuple(text for text in getattr(grant, line.where) if text != line.text)})
    # An empty list allows everything: where the last line goes, one stays that nobody uses.
    fixed = {where: getattr(less, where) or ("nothing",) for where in ("publish", "subscribe")}
    return replace(account, users={**account.users, line.user: replace(less, **fixed)})


def _text(each: Export | Import) -> str:
    return f"{each.kind} {each.subject}"
