"""The world as a method may see it: satellites, servers, links, training, one slot at a time."""

from fedorbit.fleet.channel import EXACT, Channel
from fedorbit.fleet.fleet import Fleet, TrainingPlan
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER, Ledger
from fedorbit.fleet.moves import Move
from fedorbit.fleet.network import Mail
from fedorbit.fleet.now import Now
from fedorbit.fleet.onboard import ONE_MODEL, Needs, Onboard
from fedorbit.fleet.orbits import Phase, Rules
from fedorbit.fleet.rehearsal import Rehearsal
from fedorbit.fleet.superposition import Signal, Superposed
from fedorbit.fleet.training import Finished
from fedorbit.orbits.plan import Contact, Pass, Window

__all__ = [
    "BYTES_PER_PARAMETER",
    "EXACT",
    "ONE_MODEL",
    "Channel",
    "Contact",
    "Finished",
    "Fleet",
    "Ledger",
    "Mail",
    "Move",
    "Needs",
    "Now",
    "Onboard",
    "Pass",
    "Phase",
    "Rehearsal",
    "Rules",
    "Signal",
    "Superposed",
    "TrainingPlan",
    "Window",
]
