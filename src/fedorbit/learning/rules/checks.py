"""Refusal of numbers that a rule cannot work with, when the rule is made."""

import math

from fedorbit.errors import ModelError


def check_at_least(rule: str, least: float, **numbers: float) -> None:
    """Refuse numbers below a limit, and what is infinite or not a number."""
    for name, value in numbers.items():
        if not (math.isfinite(value) and value >= least):
            raise ModelError(f"{rule}.{name} must be finite and at least {least:g}, got {value}")


def check_above(rule: str, limit: float, **numbers: float) -> None:
    """Refuse the limit, too."""
    for name, value in numbers.items():
        if not (math.isfinite(value) and value > limit):
            raise ModelError(f"{rule}.{name} must be finite and above {limit:g}, got {value}")


def check_share(rule: str, **numbers: float) -> None:
    """Refuse what is outside [0, 1]."""
    for name, value in numbers.items():
        if not 0 <= value <= 1:
            raise ModelError(f"{rule}.{name} must be between 0 and 1, got {value}")


def check_momentum(rule: str, momentum: float) -> None:
    """Refuse a momentum that does not fade."""
    if not 0 <= momentum < 1:
        raise ModelError(f"{rule}.momentum must be at least 0 and below 1, got {momentum}")
