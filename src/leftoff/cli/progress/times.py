"""How long something took, takes or will take, as a progress display says it."""

from __future__ import annotations


def took(seconds: float) -> str:
    """Of something that ended: ``0.3s``, ``12.3s``, ``3m 05s``, ``1h 04m``, ``2d 03h``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f}s"
    return whole(seconds)


def whole(seconds: float) -> str:
    """Of something that goes on, so that only whole seconds move: ``12s``, ``3m 05s``, ``1h 04m``, ``2d 03h``."""
    number = max(0, round(seconds))
    if number < 60:
        return f"{number}s"
    if number < 3600:
        return f"{number // 60}m {number % 60:02d}s"
    if number < 86_400:
        return f"{number // 3600}h {number % 3600 // 60:02d}m"
    return f"{number // 86_400}d {number % 86_400 // 3600:02d}h"


def roughly(seconds: float) -> str:
    """Of something that is only guessed: no more digits than the guess has."""
    if seconds < 60:
        return f"{round(seconds / 5) * 5}s"
    if seconds < 600:
        number = round(seconds / 10) * 10
        return f"{number // 60}m {number % 60:02d}s" if number % 60 else f"{number // 60}m"
    if seconds < 5400:
        return f"{round(seconds / 60)}m"
    return whole(round(seconds / 600) * 600)
