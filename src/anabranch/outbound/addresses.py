"""Which IP addresses may be called: public ones, whatever form hides another (S3)."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

__all__ = ["is_public"]

NAT64 = ip_network("64:ff9b::/96")
# What `is_global` lets through in some version of Python: Azure's host agent, networks of protocols (Oracle's metadata
# are there), the relays of 6to4, a local NAT64, tunnels to any address, and what is reserved for examples and segments.
REFUSED = tuple(
    ip_network(network)
    for network in (
        *("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24"),
        *("64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet; an IPv4 address inside an IPv6 one is checked as itself."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and (inner := _find_inner(address)):
        return is_public(str(inner))
    if any(address in network for network in REFUSED if network.version == address.version):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _find_inner(address: IPv6Address) -> IPv4Address | None:
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
