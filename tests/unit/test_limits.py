"""Rates by a clock that is moved, whom an address stands for, and what settings of addresses may say."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers

from anabranch.access import Principal, Scope
from anabranch.api.answers.errors import TooManyRequests
from anabranch.api.security import rates
from anabranch.api.security.forwarding import Forwarded, Proxies
from anabranch.api.security.limits import Limits
from anabranch.api.security.rates import Rate, network_of
from anabranch.errors import InputError
from anabranch.public_url import OWN_PATHS
from anabranch.settings import ForwardingHeaders, Settings, load_settings
from tests.support.application import create_app


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_ts9_an_allowance_is_used_up_and_fills_up_evenly() -> None:
    clock = Clock()
    rate = Rate(60, timedelta(minutes=1), clock)
    for _ in range(60):
        assert rate.try_take("a") == 0.0
    assert rate.try_take("a", 3) == 3.0
    clock.now = 3.0
    assert rate.try_take("a", 3) == 0.0
    assert rate.wait_for("a") == 1.0
    assert rate.wait_for("b") == 0.0
    clock.now = 1000.0
    assert rate.wait_for("a", 60) == 0.0


def test_ts9_no_more_callers_are_known_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_CALLERS", 3)
    rate = Rate(1, timedelta(minutes=1), Clock())
    for caller in "abcd":
        rate.take(caller)
    assert [rate.wait_for(caller) > 0 for caller in "abcd"] == [False, True, True, True]


def test_a_rate_of_nothing_is_no_limit() -> None:
    rate = Rate(0, timedelta(minutes=1), Clock())
    for _ in range(1000):
        assert rate.try_take("a") == 0.0


@pytest.mark.parametrize(
    ("address", "counts_for"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_ts9_an_address_of_ipv6_counts_for_its_network(address: str, counts_for: str) -> None:
    assert network_of(address) == counts_for


def test_only_the_named_networks_are_trusted() -> None:
    proxies = Proxies(["10.0.0.0/8", "2001:db8::1"])
    trusted = ["10.1.2.3", "2001:db8::1", "::ffff:10.0.0.1"]
    assert [proxies.trusts(address) for address in trusted] == [True] * 3
    assert [proxies.trusts(address) for address in ("11.0.0.1", "127.0.0.1", "", None, "unix:")] == [False] * 5
    assert not Proxies([]).trusts("127.0.0.1")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("public_url", "data.example.org", "write it as https://"),
        ("public_url", "ftp://data.example.org", "write it as https://"),
        ("public_url", "https://user:secret@data.example.org", "write it as https://"),
        ("public_url", "https://data.example.org/?a=b", "write it as https://"),
        ("public_url", "https://data.example.org:port", "write it as https://"),
        ("public_url", "https://data.example.org/a b", "between slashes"),
        ("public_url", "https://data.example.org/../x", "between slashes"),
        ("public_url", "https://data.example.org/stac", "a path of the API itself"),
        ("cors_origins", "https://a.example.org/path", "is not an origin"),
        ("cors_origins", "null", "write it as https://"),
        ("allowed_hosts", "https://a.example.org", "without scheme and port"),
        ("trusted_proxies", "nginx", "neither an address nor a network"),
    ],
)
def test_addresses_that_can_not_be_are_refused(name: str, value: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_settings(**{name: value})


def test_no_prefix_can_be_taken_for_a_path_of_the_api() -> None:
    routes = iter_route_contexts(create_app(Settings(), "postgresql://nowhere").routes)
    assert {str(route.path).split("/")[1] for route in routes} - {""} == OWN_PATHS


def test_addresses_are_kept_in_one_form() -> None:
    settings = load_settings(
        public_url="https://Data.example.org:8443/anb/", cors_origins="*, https://A.example.org:443"
    )
    assert settings.public_url == "https://data.example.org:8443/anb"
    assert settings.cors_origins == ("*", "https://a.example.org")
    assert load_settings(public_url="http://[2001:db8::1]/").public_url == "http://[2001:db8::1]"


@pytest.mark.parametrize(
    "lines",
    [
        ['for=9.9.9.9;host=evil.example;x="', 'for="[2001:db8::2]:4711"'],
        ['for=9.9.9.9;host=evil.example;x=", for="[2001:db8::2]:4711"'],
        ["for=9.9.9.9;host=evil.example for=8.8.8.8"],
    ],
)
def test_s1_a_header_that_is_not_written_as_it_must_be_is_not_believed(lines: list[str]) -> None:
    """A quote that a caller leaves open would take in what the proxy adds."""
    headers = Headers(raw=[(b"forwarded", line.encode()) for line in lines])
    assert Proxies(["10.0.0.0/8"], "forwarded").read(headers) == Forwarded()


def test_s1_what_a_trusted_proxy_adds_is_believed() -> None:
    headers = Headers(
        raw=[(b"forwarded", b"for=9.9.9.9;host=evil.example"), (b"forwarded", b'for=8.8.8.8;host=" a.b "')]
    )
    assert Proxies(["10.0.0.0/8"], "forwarded").read(headers) == Forwarded("8.8.8.8", None, "a.b")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("x-forwarded", Forwarded("203.0.113.5", "http", "a.example", "/x")),
        ("forwarded", Forwarded("2001:db8::1", "https", "b.example")),
    ],
)
def test_ts6_only_the_headers_that_proxies_set_are_read(kind: ForwardingHeaders, expected: Forwarded) -> None:
    """A proxy that sets one kind passes on what a caller sends in the other."""
    sent = {
        "x-forwarded-for": "203.0.113.5",
        "x-forwarded-host": "a.example",
        "x-forwarded-proto": "http",
        "x-forwarded-prefix": "/x",
        "forwarded": 'for="[2001:db8::1]:4711";host=b.example;proto=https',
    }
    assert Proxies(["10.0.0.0/8"], kind).read(Headers(sent)) == expected


async def test_ts9_of_two_uploads_at_once_that_are_too_much_together_one_is_refused_before_it_begins() -> None:
    limits, sender = Limits(Settings(platform_upload_mb_per_day=2)), Principal("a", "a", Scope.SUBMIT, "k")

    async def pieces(*sizes: int) -> AsyncIterator[bytes]:
        for size in sizes:
            yield bytes(size)

    first = limits.count_bytes(sender, 1_500_000, pieces(500_000, 1_000_000))
    assert len(await anext(first)) == 500_000
    second = limits.count_bytes(sender, 1_500_000, pieces(1_500_000))
    with pytest.raises(TooManyRequests) as refused:
        await anext(second)
    assert refused.value.code == "quota.bytes"
    await first.aclose()  # the sender went away: what did not come is not counted
    assert [len(piece) async for piece in limits.count_bytes(sender, 1_500_000, pieces(1_500_000))] == [1_500_000]
