"""Reading from the web where that is allowed: from listed hosts, never from an address that is not the world's.

A name is resolved once, every address that it has is checked, and the connection goes to a checked address, so that a
name that changes its address in between gains nothing. Redirects are followed by hand, each one checked like the first.
The limits are on the whole of it: hops, seconds, bytes.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

_REDIRECTS = (301, 302, 303, 307, 308)
# Not told apart by `is_global`: ways to reach a private IPv4 address through an IPv6 one, and a cloud's own services.
_NOT_OURS = tuple(
    ipaddress.ip_network(network)
    for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "fec0::/10", "192.0.0.0/24",
                    "168.63.129.16/32", "192.88.99.0/24")
)  # fmt: skip
_AGENT = "nightdesk"


class Refused(Exception):
    """The address is not one that may be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was answered in the end. `body` may be cut off at the limit of bytes."""

    status: int
    url: str
    body: bytes


def is_public(address: Address) -> bool:
    """Whether the address is one of the world's, and of nobody's own network or machine."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    own = any(address.version == network.version and address in network for network in _NOT_OURS)
    return address.is_global and not (own or address.is_multicast or address.is_reserved or address.is_unspecified)


def is_listed(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether the host is on the list; `*.example.com` stands for all below example.com, not for itself."""
    name = host.lower().rstrip(".")
    return any(name == listed or (listed.startswith("*.") and name.endswith(listed[1:])) for listed in hosts)


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Egress:
    """`resolve`, `permits` and `ports` are the world's own, but where somebody tests against a server of his own."""

    seconds: float = 10.0
    most_bytes: int = 2 * 1024 * 1024
    hops: int = 5
    ports: frozenset[int] = frozenset({80, 443})
    resolve: Resolve = resolve
    permits: Callable[[Address], bool] = is_public

    async def read(self, url: str, hosts: tuple[str, ...]) -> Page:
        """The page at the address. Refused if it, or what it leads to, may not be asked; OSError, TimeoutError or an
        error of httpx2's if it cannot be had."""
        timeout = httpx2.Timeout(self.seconds)
        async with (
            asyncio.timeout(self.seconds),
            httpx2.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client,
        ):
            for _ in range(self.hops + 1):
                page, leads_to = await self._ask(client, url, hosts)
                if leads_to is None:
                    return page
                url = leads_to
        raise Refused(f"it leads on more than {self.hops} times")

    async def _ask(self, client: Any, url: str, hosts: tuple[str, ...]) -> tuple[Page, str | None]:
        parsed = self._checked(url, hosts)
        request = await self._request(client, parsed)
        response = await client.send(request, stream=True)
        try:
            leads_to = response.headers.get("location") if response.status_code in _REDIRECTS else None
            body = b"" if leads_to else await self._read_body(response)
        finally:
            await response.aclose()
        return Page(response.status_code, url, body), str(parsed.join(leads_to)) if leads_to else None

    def _checked(self, url: str, hosts: tuple[str, ...]) -> httpx2.URL:
        try:
            parsed = httpx2.URL(url)
        except (httpx2.InvalidURL, ValueError, TypeError):
            raise Refused("it is not an address that can be read") from None
        if parsed.scheme not in ("http", "https"):
            raise Refused(f"it is not of the web: {parsed.scheme or 'no scheme'}")
        if parsed.userinfo:
            raise Refused("it carries a name or a password")
        if not is_listed(parsed.raw_host.decode("ascii"), hosts):
            raise Refused(f"{parsed.host or 'no host'} is not on the list of hosts")
        if _port(parsed) not in self.ports:
            raise Refused(f"port {_port(parsed)} is not one of the web's")
        return parsed

    async def _request(self, client: Any, parsed: httpx2.URL) -> Any:
        """To the checked address; the name is kept for the certificate and for the server."""
        host = parsed.raw_host.decode("ascii")
        found = [ipaddress.ip_address(text.partition("%")[0]) for text in await self.resolve(host, _port(parsed))]
        if not found:
            raise Refused(f"{host} has no address")
        for address in found:
            if not self.permits(address):
                raise Refused(f"{host} is at {address}, which is not an address of the world's")
        headers = {"host": parsed.netloc.decode("ascii"), "user-agent": _AGENT, "accept-encoding": "identity"}
        target = parsed.copy_with(host=str(found[0]))
        return client.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})

    async def _read_body(self, response: Any) -> bytes:
        """As it comes, not unpacked: what is packed small may be large."""
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) >= self.most_bytes:
                break
        return bytes(body[: self.most_bytes])


def _port(parsed: httpx2.URL) -> int:
    return parsed.port or (443 if parsed.scheme == "https" else 80)
