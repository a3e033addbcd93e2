"""What a pool may be called. It is part of names in Kubernetes, so new ones are DNS-1123 labels; pools and playbooks
from before keep theirs."""

import re

from shared.events.bounds import POOL_NAME

NAME_FIX = "small letters, digits and -, beginning with a letter and not ending with -, at most 63"


def is_pool_name(name: str) -> bool:
    """Whether a pool can be made under this name."""
    return POOL_NAME.fullmatch(name) is not None


def name_fix(name: str) -> str:
    """With the nearest name that can be had, if there is one."""
    near = re.sub(r"[^a-z0-9-]+", "-", name.lower())[:63].strip("-")
    return f"write {near}: {NAME_FIX}" if is_pool_name(near) else NAME_FIX
