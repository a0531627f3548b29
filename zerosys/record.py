"""Immutable records without dataclasses, whose import would cost a command more than its work."""

from __future__ import annotations


class Record:
    """A value whose fields are its annotations: made by keyword, compared, shown and pickled by them.

    A field that the class gives a value may be left out.
    """

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(name for name in cls.__annotations__ if not name.startswith("_"))

    def __init__(self, **facts: object) -> None:
        needed = {name for name in self._fields if not hasattr(type(self), name)}
        if not needed <= facts.keys() <= set(self._fields):
            wrong = ", ".join(sorted(needed - facts.keys() | facts.keys() - set(self._fields)))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        self.__dict__.update(facts)

    def fields(self) -> dict[str, object]:
        """The fields by name, in their order."""
        return {name: getattr(self, name) for name in self._fields}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change: {name} was told once")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change: {name} was told once")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(self) is not type(other):
            return NotImplemented
        return self.fields() == other.fields()

    __hash__ = None  # type: ignore[assignment]  # fields may be mappings

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.fields())


def _rebuild(kind: type[Record], fields: dict[str, object]) -> Record:
    return kind(**fields)
