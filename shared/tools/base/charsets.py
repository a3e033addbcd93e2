"""Text that others send, in the charsets it comes in. Python has codecs that are none of them, some of which take time
by the square of the length (punycode): only what is listed here is decoded, until it proves to be no text."""

import asyncio
import codecs

CHUNK = 64 * 1024      # bytes decoded before anything else of the worker gets its turn
MAX_REPLACED = 10_000  # places of one text that are not in its charset; with more it is no text
REPLACEMENT = "\ufffd"

_SAME = ("utf-8", "utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be", "shift-jis", "euc-jp",
         "iso-2022-jp", "euc-kr", "gb2312", "gbk", "gb18030", "big5", "big5-hkscs", "koi8-r", "koi8-u", "tis-620")
_OTHERS = {
    "utf8": "utf-8", "ascii": "ascii", "us-ascii": "ascii", "latin1": "iso-8859-1", "latin-1": "iso-8859-1",
    "utf-16-le": "utf-16le", "utf-16-be": "utf-16be", "utf-32-le": "utf-32le", "utf-32-be": "utf-32be",
    "sjis": "shift-jis", "x-sjis": "shift-jis", "windows-31j": "cp932", "cp932": "cp932", "eucjp": "euc-jp",
    "euckr": "euc-kr", "ks-c-5601-1987": "cp949", "cp949": "cp949", "x-gbk": "gbk", "cp936": "gbk",
    "big5hkscs": "big5-hkscs", "cp950": "cp950", "windows-874": "cp874", "macintosh": "mac-roman", "cp866": "cp866",
    "ibm866": "cp866", "cp437": "cp437", "ibm437": "cp437", "cp850": "cp850", "ibm850": "cp850",
}
# What a charset is called → Python's codec.
CODECS = {
    **{name: name for name in _SAME}, **_OTHERS,
    **{f"{head}8859-{part}": f"iso-8859-{part}" for part in range(1, 17) if part != 12 for head in ("iso-", "iso")},
    **{f"{head}{page}": f"cp{page}" for page in range(1250, 1259) for head in ("windows-", "cp")},
}


def label(charset: str) -> str:
    """The charset as CODECS has it."""
    return charset.strip(" \t\"'").lower().replace("_", "-")


async def text(body: bytes, charset: str = "utf-8") -> str | None:
    """None: it is not text in that charset. A few places that are not are replaced."""
    decoder = codecs.getincrementaldecoder(CODECS[label(charset)])("replace")
    parts = []
    replaced = 0
    for start in range(0, len(body) or 1, CHUNK):
        part = decoder.decode(body[start : start + CHUNK], start + CHUNK >= len(body))
        replaced += part.count(REPLACEMENT)
        if replaced > MAX_REPLACED:
            return None
        parts.append(part)
        if len(body) > CHUNK:
            await asyncio.sleep(0)
    return "".join(parts)
