"""Trackers: TensorBoard and MLflow are told of a run while it goes on; each is an extra.

They watch, and nothing they do reaches a result. What they are told comes from the records, so
whatever a tracker missed (a run resumed, a server that was away) it is told the next time.
"""

from fedorbit.simulation.tracking.tracking import Tracking as Tracking
from fedorbit.simulation.tracking.tracking import connect as connect
