"""An asynchronous method in one short file, after FedSat (Razmi et al., 2022).

A satellite trains between its visits to ground stations, for as long as that takes on board. At a
visit it uploads what it has trained, the ground replaces that satellite's last contribution to the
mean w = sum n_k last_k / sum n_k at once, and the satellite leaves with the newest model.

    fedorbit run -o 'run.method=["fedavg", "fedsat_like:FedSatLike"]' -o onboard.samples_per_s=5
"""

from typing import Any, ClassVar

import numpy as np

from fedorbit.methods import Fleet, Method, Now, State


class FedSatLike(Method):
    """Replace a satellite's contribution to the mean whenever it visits."""

    serves: ClassVar = "satellite"

    def start(self, fleet: Fleet) -> State:
        """All satellites have the first model, and none has reported: n = 0."""
        w, n = fleet.initial_model(), np.zeros(fleet.satellites, dtype=np.float32)
        everywhere = np.tile(w, (fleet.satellites, 1))
        coming = np.zeros(fleet.satellites, dtype=bool)
        counts = {"n": n, "coming": coming, "version": np.array(0), "staleness": np.array(0)}
        return {"global": w, "received": everywhere, "last": np.zeros_like(everywhere), **counts}

    def round(self, state: State, now: Now) -> State:
        """Collect what satellites have trained, and send the visitors off with the newest model."""
        after = {name: array.copy() for name, array in state.items()}
        received, last, n, coming = (after[name] for name in ("received", "last", "n", "coming"))
        for done in now.finished():  # on board, perhaps rounds ago; sent at the next contact
            if (server := now.next_server(done.satellite)) is not None:
                now.send(done.satellite, server, done.model, wait=True, base=done.about["base"])
        for mail in (mail for server in now.servers for mail in now.inbox(server)):
            last[mail.source], n[mail.source] = mail.payload, now.samples[mail.source]
            after["staleness"] += after["version"] - mail.about["base"]
            after["version"] += 1
        if n.any():
            after["global"] = np.average(last, axis=0, weights=n)
        for k in now.satellites_of():
            if now.samples[k] and not coming[k] and not now.is_busy(k):
                server, base = now.servers_of(k)[0], int(after["version"])
                coming[k] = now.send(server, k, after["global"], wait=True, base=base) is not None
        for mail in (mail for k in now.satellites for mail in now.inbox(k)):
            received[mail.target], coming[mail.target] = mail.payload, False
            now.begin([now.job(mail.target, mail.payload)], about=[mail.about])
        return after

    def models(self, state: State) -> np.ndarray:
        """Every satellite uses the model it received last."""
        return state["received"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report how many updates there were, and how many came between on average."""
        version, staleness = int(state["version"]), int(state["staleness"])
        return {"updates": version, "mean_staleness": staleness / max(version, 1)}
