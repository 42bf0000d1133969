"""Trackers: a run is logged to TensorBoard or MLflow while it trains; each is an extra.

They observe, and nothing they do reaches a result. What they log comes from the records, so
whatever a tracker missed (a run resumed, a server that was away) is logged the next time.
"""

from fedorbit.simulation.tracking.tracking import Tracking as Tracking
from fedorbit.simulation.tracking.tracking import connect as connect
