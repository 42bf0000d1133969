"""Steps of methods whose clients are single satellites that visit servers.

A satellite receives a model during a visit, trains it on board for as long as that takes, and
sends the result in the first contact after that. A visit is a run of slots in which it has a
contact with any server. State beside that of `global_model`, of each satellite:

    base     version of the model that it was sent last; -1 before
    stage    free, receiving, training or sending
    visit    away, or what the visit under way has brought
"""

from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedorbit.fleet import Contact, Finished, Fleet, Mail, Now
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part
from fedorbit.methods.base import State
from fedorbit.methods.global_model import GlobalModel, at_begin, take

FREE, RECEIVING, TRAINING, SENDING = range(4)
"""Stages of a satellite."""
AWAY, NOTHING, RECEIVED, SENT = range(4)
"""A satellite that has no contact, or what it has last done in this visit."""


class SatelliteClients(GlobalModel, ABC):
    """A method whose clients are single satellites."""

    def start(self, fleet: Fleet) -> State:
        """All orbits have the first model, and all satellites are free."""
        return {
            **super().start(fleet),
            "base": np.full(fleet.satellites, -1),
            "stage": np.zeros(fleet.satellites, dtype=np.int8),
            "visit": np.zeros(fleet.satellites, dtype=np.int8),
        }


def open_slot(state: State, now: Now, *uncopied: str) -> tuple[State, list[Contact]]:
    """Return a state to work on, and the first contact of each satellite that takes part, by begin.

    Arrays that are named are not copied. Visits that are over without an exchange are noted.
    """
    state = at_begin(state, now, *uncopied)
    first: dict[int, Contact] = {}
    for contact in now.contacts():
        if now.samples[contact.satellite]:
            first.setdefault(contact.satellite, contact)
    here = np.isin(np.arange(now.fleet.satellites), list(first))
    for _ in range(np.count_nonzero((state["visit"] == NOTHING) & ~here)):
        now.note(idle_visit=1)
    state["visit"] = np.where(here, np.maximum(state["visit"], NOTHING), AWAY).astype(np.int8)
    return state, list(first.values())


def send_finished(
    state: State, now: Now, done: Finished, vector: Vector, part: Part | None = None, **about: Any
) -> int | None:
    """Send what a satellite has made of its model, now or in its next contact.

    Return the slot of arrival. A satellite that could not train for want of power, or will have no
    contact, is free again.
    """
    k, arrival = done.satellite, None
    if done.trained.steps and (server := now.next_server(k)) is not None:
        about = {**done.about, **about}
        arrival = now.send(k, server, vector, part=part, wait=True, **about)
    state["stage"][k] = FREE if arrival is None else SENDING
    return arrival


def arrivals(state: State, now: Now) -> dict[int, Mail]:
    """Return what has arrived at the servers, by satellite; these satellites are free again."""
    arrived = {mail.source: mail for server in now.servers for mail in now.inbox(server)}
    has_sent(state, arrived)
    return arrived


def has_sent(state: State, satellites: Iterable[int]) -> None:
    """Note that what satellites have trained is at the servers."""
    for k in satellites:
        state["stage"][k], state["visit"][k] = FREE, SENT


def send_model(
    state: State, now: Now, contact: Contact, part: Part | None = None, **about: Any
) -> int | None:
    """Send the newest model to a satellite that is free; return the slot of arrival."""
    k, version, w = contact.satellite, int(state["version"]), state["global"]
    arrival = now.send(contact.server, k, w, part=part, wait=True, version=version, **about)
    if arrival is not None:
        state["base"][k], state["stage"][k] = version, RECEIVING
        state["visit"][k] = max(state["visit"][k], RECEIVED)
    return arrival


def begin_training(
    state: State,
    now: Now,
    jobs: Callable[[Mail], Sequence[LocalJob]],
    uses: Callable[[int], bool] = lambda satellite: True,
) -> None:
    """Begin jobs where a model has arrived, which its orbit uses from now on.

    `jobs`: those of one satellite, one after the other. `uses`: whether the orbit of a satellite
    uses what this one receives.
    """
    receiving = np.flatnonzero(state["stage"] == RECEIVING).tolist()
    mails = [mail for k in receiving for mail in now.inbox(k)]
    for mail in mails:
        state["stage"][mail.target] = TRAINING
        if uses(mail.target):
            take(state, now, mail)
    begun = [(job, mail) for mail in mails for job in jobs(mail)]
    now.begin(
        [job for job, _ in begun],
        about=[mail.about for _, mail in begun],
        after_s=[mail.arrival_s for _, mail in begun],
    )
