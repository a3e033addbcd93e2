"""What NetworkPolicies let through, as their documentation says: of a Pod that one selects, only what one lists."""

from ipaddress import ip_address, ip_network
from typing import Any

from msgspec import Struct

Policy = dict[str, Any]
Labels = dict[str, str]


class Peer(Struct, frozen=True):
    """A Pod of this or another namespace, or an address outside."""

    labels: Labels = {}
    namespace: Labels | None = None  # its labels; None: the policy's own
    address: str = ""


def may_send(policies: list[Policy], labels: Labels, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether a Pod with these labels may open a connection to the peer."""
    chosen = [each["spec"] for each in policies
              if "Egress" in each["spec"]["policyTypes"] and selects(each["spec"]["podSelector"], labels)]
    rules = [rule for spec in chosen for rule in spec.get("egress", ())]
    return not chosen or any(_lets(rule, "to", peer, port, protocol) for rule in rules)


def may_hear(policies: list[Policy], labels: Labels, peer: Peer, port: int) -> bool:
    chosen = [each["spec"] for each in policies
              if "Ingress" in each["spec"]["policyTypes"] and selects(each["spec"]["podSelector"], labels)]
    rules = [rule for spec in chosen for rule in spec.get("ingress", ())]
    return not chosen or any(_lets(rule, "from", peer, port, "TCP") for rule in rules)


def selects(selector: dict[str, Any], labels: Labels) -> bool:
    for each in selector.get("matchExpressions", ()):
        found = labels.get(each["key"]) in each["values"]
        if found != (each["operator"] == "In"):
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def _lets(rule: dict[str, Any], side: str, peer: Peer, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    right_port = not ports or any(each["port"] == port and each.get("protocol", "TCP") == protocol for each in ports)
    return right_port and (not rule.get(side) or any(_is(each, peer) for each in rule[side]))


def _is(wanted: dict[str, Any], peer: Peer) -> bool:
    if "ipBlock" in wanted:
        block = wanted["ipBlock"]
        return bool(peer.address) and _inside(peer.address, block["cidr"]) and not any(
            _inside(peer.address, each) for each in block.get("except", ()))
    if peer.address:
        return False
    if "namespaceSelector" in wanted:
        right_place = peer.namespace is not None and selects(wanted["namespaceSelector"], peer.namespace)
    else:
        right_place = peer.namespace is None
    return right_place and selects(wanted.get("podSelector", {}), peer.labels)


def _inside(address: str, block: str) -> bool:
    return ip_address(address) in ip_network(block)
