"""Which IP addresses may be called, whatever form hides another: public ones, for exempt hosts private ones (S3)."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

__all__ = ["is_internal", "is_public"]

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
# Where clouds answer their machines with credentials, and what is on the same link; nobody may have that called.
INTERNAL = tuple(
    ip_network(network)
    for network in (
        *("169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
        *("fe80::/10", "fd00:ec2::/32", "fd20:ce::/32"),
    )
)


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet; an IPv4 address inside an IPv6 one is checked as itself."""
    address = _read(text)
    if any(address in network for network in REFUSED):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def is_internal(text: str) -> bool:
    """Whether an address is link-local or one of a cloud's metadata: not even exempt hosts may have it."""
    address = _read(text)
    return any(address in network for network in INTERNAL)


def _read(text: str) -> IPv4Address | IPv6Address:
    """An address, or the IPv4 address inside of it."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return address
    inner = IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else address.ipv4_mapped or address.sixtofour
    return inner or address
