"""Steps of methods whose clients are single satellites that visit servers, which act as one.

A satellite receives a model during a visit, trains it on board for as long as that takes, and
sends the result in the first contact after that. A visit is a run of slots in which it has a
contact with any server. State that these steps share, beside the method's own:

    global, version               the servers' model, and the number of aggregations behind it
    received, received_version    of each orbit: the newest model that any of its satellites has got
    stage                         of each satellite: free, receiving, training or sending
    visit                         of each satellite: away, or what the visit under way has brought
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedorbit.fleet import Contact, Finished, Fleet, Mail, Now
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.steps import load_launched

FREE, RECEIVING, TRAINING, SENDING = range(4)
"""Stages of a satellite."""
AWAY, NOTHING, RECEIVED, SENT = range(4)
"""A satellite that has no contact, or what it has last done in this visit."""


def before_visits(fleet: Fleet) -> State:
    """Return the shared state before the first round: the first model everywhere."""
    w = fleet.initial_model()
    return {
        "global": w,
        "version": np.zeros((), dtype=np.int64),
        "received": np.tile(w, (fleet.orbits, 1)),
        "received_version": np.zeros(fleet.orbits, dtype=np.int64),
        "stage": np.zeros(fleet.satellites, dtype=np.int8),
        "visit": np.zeros(fleet.satellites, dtype=np.int8),
    }


def open_slot(state: State, now: Now, *uncopied: str) -> tuple[State, list[Contact]]:
    """Return a state to work on, and the first contact of each satellite that takes part, by begin.

    Arrays that are named are not copied. Visits that are over without an exchange are noted.
    """
    launched = now.orbits.launched
    loaded = load_launched(state, now, "received")
    state = {k: v if k in uncopied else v.copy() for k, v in loaded.items()}
    state["received_version"][launched] = state["version"]
    first: dict[int, Contact] = {}
    for contact in now.contacts():
        if now.samples[contact.satellite]:
            first.setdefault(contact.satellite, contact)
    here = np.zeros(len(state["visit"]), dtype=np.bool_)
    here[list(first)] = True
    visit = state["visit"]
    for _ in range(np.count_nonzero((visit == NOTHING) & ~here)):
        now.note(idle_visit=1)
    state["visit"] = np.where(here, np.maximum(visit, NOTHING), AWAY).astype(np.int8)
    return state, list(first.values())


def send_finished(state: State, now: Now, done: Finished, vector: Vector, **about: Any) -> None:
    """Send what a satellite has made of its model, now or in its next contact.

    A satellite that could not train for want of power, or will have no contact, is free again.
    """
    k, sent = done.satellite, None
    if done.trained.steps and (server := now.next_server(k)) is not None:
        about = {**done.about, **about}
        sent = now.send(k, server, vector, wait=True, **about)
    state["stage"][k] = FREE if sent is None else SENDING


def arrivals(state: State, now: Now) -> dict[int, Mail]:
    """Return what has arrived at the servers, by satellite; these are free again."""
    arrived = {mail.source: mail for server in now.servers for mail in now.inbox(server)}
    senders = list(arrived)
    state["stage"][senders], state["visit"][senders] = FREE, SENT
    return arrived


def send_model(state: State, now: Now, contact: Contact, **about: Any) -> None:
    """Send the newest model to a satellite that is free."""
    k, version = contact.satellite, int(state["version"])
    w = state["global"]
    if now.send(contact.server, k, w, wait=True, version=version, **about) is not None:
        state["stage"][k] = RECEIVING
        state["visit"][k] = max(state["visit"][k], RECEIVED)


def begin_training(
    state: State, now: Now, jobs: Callable[[int, Vector], Sequence[LocalJob]]
) -> None:
    """Begin jobs where a model has arrived, which its orbit uses from now on.

    `jobs`: those of a satellite that has received a model, one after the other.
    """
    receiving = np.flatnonzero(state["stage"] == RECEIVING).tolist()
    mail = [letter for k in receiving for letter in now.inbox(k)]
    for letter in mail:
        orbit, version = now.fleet.orbit_of_satellite[letter.target], int(letter.about["version"])
        if version >= state["received_version"][orbit]:
            state["received"][orbit], state["received_version"][orbit] = letter.payload, version
        state["stage"][letter.target] = TRAINING
    begun = [(job, x) for x in mail for job in jobs(x.target, x.payload)]
    now.begin(
        [job for job, _ in begun],
        about=[letter.about for _, letter in begun],
        after_s=[letter.arrival_s for _, letter in begun],
    )
