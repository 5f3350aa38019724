"""Tables of parts that one file and one line extend: rankers, strategies, measures and more."""

from collections.abc import Iterator, MutableMapping
from pkgutil import resolve_name
from typing import Generic, TypeVar, cast

from deadhead.errors import unknown_name

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Parts by name. An entry is the part itself, or `module:NAME` of the package, imported on use.

    Listing the names imports nothing. An unknown name raises UnknownName, with a suggestion.
    """

    def __init__(self, kind: str, package: str, entries: dict[str, str]):
        self.kind, self.package = kind, package
        self._entries: dict[str, T | str] = dict(entries)

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise unknown_name(self.kind, name, self)
        entry = self._entries[name]
        if isinstance(entry, str):
            entry = cast(T, resolve_name(f"{self.package}.{entry}"))
            self._entries[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __setitem__(self, name: str, entry: T | str) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
