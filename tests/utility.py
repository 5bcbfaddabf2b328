"""What a case of the utility tests is."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["KEY", "Case"]

# Repeatable fits need a key; this one stands in a public file, and hides nothing.
KEY = 0x5D0F4B6E83C2479A9E1B7C5508D6A2F3


@dataclass(frozen=True)
class Case:
    name: str
    measure: Callable[[int], float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def threshold(self) -> str:
        return f">= {self.at_least:g}" if self.at_most is None else f"<= {self.at_most:g}"

    def holds(self, value: float) -> bool:
        # Such that NaN does not hold.
        return bool(value >= self.at_least if self.at_most is None else value <= self.at_most)
