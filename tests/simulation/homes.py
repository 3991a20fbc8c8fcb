"""The two homes of the values of a store that a table coordinates: items of the table, and objects.

What processes find under a key is one value: the item, if there is one, otherwise the object. `World.objects` has that
value, so that promises need not know of homes. An object that an item hides comes to light when the item goes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.world import World

__all__ = ["AnyHome", "Home", "Homes", "Items", "Objects"]


class Home(ABC):
    """Keeps the values of a simulated store."""

    @abstractmethod
    def find(self, key: str) -> bytes | None:
        """The value; None if there is none."""

    @abstractmethod
    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """Stores a value; None deletes it."""

    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Sizes by key."""

    @abstractmethod
    def past_sizes(self) -> Mapping[str, int]:
        """The same, as a listing shows them that may be stale."""


@dataclass(frozen=True)
class AnyHome(Home):
    """All values of a world that no table coordinates."""

    world: "World"

    def find(self, key: str) -> bytes | None:
        """See `Home`."""
        return self.world.objects.get(key)

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """See `Home`."""
        if data is not None or key in self.world.objects:
            self.world.write(key, data, by=by)

    def sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return {key: len(data) for key, data in self.world.objects.items()}

    def past_sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return self.world.past_sizes()


@dataclass
class Homes:
    """Items and objects of a world.

    Attributes:
        created: keys of items. One whose value a disk has lost is none.
        hidden: values of objects that items hide.
    """

    world: "World"
    created: set[str] = field(default_factory=set)
    hidden: dict[str, bytes] = field(default_factory=dict)

    def has_item(self, key: str) -> bool:
        """True if an item is under a key."""
        return key in self.created and key in self.world.objects


@dataclass(frozen=True)
class Items(Home):
    """The table: its listings are never stale."""

    homes: Homes

    def find(self, key: str) -> bytes | None:
        """See `Home`."""
        return self.homes.world.objects[key] if self.homes.has_item(key) else None

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """See `Home`."""
        world, homes = self.homes.world, self.homes
        if data is not None:
            if not homes.has_item(key) and key in world.objects:
                homes.hidden[key] = world.objects[key]
            homes.created.add(key)
            world.write(key, data, by=by)
        elif homes.has_item(key):
            homes.created.remove(key)
            world.write(key, homes.hidden.pop(key, None), by=by)

    def sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return {key: len(data) for key, data in self.homes.world.objects.items() if key in self.homes.created}

    def past_sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return self.sizes()


@dataclass(frozen=True)
class Objects(Home):
    """The object store."""

    homes: Homes

    def find(self, key: str) -> bytes | None:
        """See `Home`."""
        return self.homes.hidden.get(key) if self.homes.has_item(key) else self.homes.world.objects.get(key)

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """See `Home`."""
        homes = self.homes
        if not homes.has_item(key):
            AnyHome(homes.world).write(key, data, by=by)
        elif data is None:
            homes.hidden.pop(key, None)
        else:
            homes.hidden[key] = data

    def sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return self._without_items(AnyHome(self.homes.world).sizes())

    def past_sizes(self) -> Mapping[str, int]:
        """See `Home`."""
        return self._without_items(self.homes.world.past_sizes())

    def _without_items(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        hidden = {key: len(data) for key, data in self.homes.hidden.items()}
        return {**{key: size for key, size in sizes.items() if not self.homes.has_item(key)}, **hidden}
