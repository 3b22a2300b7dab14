"""Listening to transactions: the observer that statements pick up from their context."""

from rowlock.transaction.phases import PHASES, Observer, current_observer, use_observer

__all__ = ["PHASES", "Observer", "current_observer", "use_observer"]
