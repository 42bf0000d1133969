"""Trackers: a run is logged to TensorBoard or MLflow while it trains; each is an extra.

They watch, and nothing they do reaches a result. What they are told comes from the records, so
whatever a tracker missed (a run resumed, a server that was away) it is told the next time.
"""

from fedorbit.simulation.tracking.tracking import Tracking as Tracking
from fedorbit.simulation.tracking.tracking import connect as connect
