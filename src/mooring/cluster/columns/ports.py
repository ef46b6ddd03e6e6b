"""Host ports in use, row by row. Two pods conflict if protocol and port are equal and the addresses are equal or one
is 0.0.0.0."""

from collections.abc import Iterable

from mooring.model.shape import ANY_IP, HostPort


class PortUse:
    """(protocol, port) -> row -> the addresses that use it there.

    Parity: a set, not a count: when two pods of a node hold the same address and port, the first that leaves frees it.
    """

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[int, set[str]]] = {}

    def occupy(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod with these ports is on the row."""
        for ip, protocol, port in ports:
            self._used.setdefault((protocol, port), {}).setdefault(row, set()).add(ip)

    def release(self, row: int, ports: Iterable[HostPort]) -> None:
        for ip, protocol, port in ports:
            rows = self._used.get((protocol, port), {})
            if row in rows:
                rows[row].discard(ip)
                if not rows[row]:
                    del rows[row]
                    if not rows:
                        del self._used[protocol, port]

    def clear(self, row: int) -> None:
        """No pod of the row uses a port any more: it is about to be counted anew."""
        for port, rows in list(self._used.items()):
            if rows.pop(row, None) is not None and not rows:
                del self._used[port]

    def conflicts(self, wanted: HostPort) -> Iterable[int]:
        """The rows on which this address and port are taken."""
        ip, protocol, port = wanted
        rows = self._used.get((protocol, port), {})
        if ip == ANY_IP:
            return rows.keys()
        return [row for row, addresses in rows.items() if ip in addresses or ANY_IP in addresses]

    def is_taken(self, row: int, wanted: HostPort) -> bool:
        """Whether this address and port are taken on one row. Hot: after a placement one row is asked about."""
        ip, protocol, port = wanted
        addresses = self._used.get((protocol, port), {}).get(row)
        return addresses is not None and (ip == ANY_IP or ip in addresses or ANY_IP in addresses)

    def is_held(self, row: int, port: HostPort) -> bool:
        """Whether exactly this address and port are taken on the row."""
        ip, protocol, number = port
        return ip in self._used.get((protocol, number), {}).get(row, ())

    def uses(self) -> list[tuple[int, HostPort]]:
        """The host ports in use, each with its row."""
        return [
            (row, (ip, protocol, port))
            for (protocol, port), rows in self._used.items()
            for row, addresses in rows.items()
            for ip in sorted(addresses)
        ]

    def take_over(self, uses: Iterable[tuple[int, HostPort]]) -> None:
        """Take what is taken in another table: it does not follow from the pods alone."""
        self._used = {}
        for row, port in uses:
            self.occupy(row, (port,))

    def sketch(self) -> "PortUse":
        """A copy that shares what it does not change."""
        return _PortSketch(self)

    def fork(self) -> "PortUse":
        """A copy that can change as it likes; used for what-ifs about many pods."""
        other = PortUse()
        other._used = {port: {row: set(ips) for row, ips in rows.items()} for port, rows in self._used.items()}
        return other


class _PortSketch(PortUse):
    """Ports in a what-if: the addresses of a row and port are copied when they first change."""

    def __init__(self, base: PortUse) -> None:
        self._used = base._used
        self._owned: set[tuple[str, int]] = set()

    def occupy(self, row: int, ports: Iterable[HostPort]) -> None:
        ports = tuple(ports)
        self._own(ports)
        super().occupy(row, ports)

    def release(self, row: int, ports: Iterable[HostPort]) -> None:
        ports = tuple(ports)
        self._own(ports)
        super().release(row, ports)

    def _own(self, ports: tuple[HostPort, ...]) -> None:
        """Copy the entries of these ports before they change for the first time; the outer dictionary with the first
        of them."""
        for _, protocol, port in ports:
            key = (protocol, port)
            if key not in self._owned:
                if not self._owned:
                    self._used = dict(self._used)
                self._owned.add(key)
                if key in self._used:
                    self._used[key] = {row: set(addresses) for row, addresses in self._used[key].items()}
