"""Records of a run as a data frame, and a figure of your own from them.

    python records_with_pandas.py

Needs the extra pandas (docs/quickstart.md, Extras). What the columns mean: docs/records.md.
"""

from matplotlib.figure import Figure

import fedorbit as fo

small = ["data.synthetic.samples=1000", "run.rounds=60", "training.batch=10", "training.rate=0.05"]
changes = ['run.method=["fedavg", "fedorbit"]', "run.links=causal", "network.isl=assumed", *small]
fo.run(fo.load_config("quickstart", changes), "pandas-run")

table = fo.load_run("pandas-run").to_pandas()  # one row per method and evaluated round
last = table.groupby("method").tail(5).groupby("method")
print(last[["accuracy", "spread", "samples_trained", "to_ground_bytes"]].mean().round(1))

figure = Figure(figsize=(9, 3), layout="constrained")
left, right = figure.subplots(1, 2)
for method, rows in table.groupby("method"):
    left.plot(rows["to_ground_bytes"] / 1e6, rows["accuracy"], label=method)
left.set(xlabel="MB to ground", ylabel="accuracy, %")
left.legend()

orbits = [name for name in table.columns if name.startswith("orbit_accuracy")]
rows = table[table["method"] == "fedorbit"]
for orbit, name in enumerate(orbits):
    right.plot(rows["hours"], rows[name].rolling(10).mean(), label=f"orbit {orbit}")
right.set(xlabel="hours", ylabel="accuracy of fedorbit, mean of 10 rounds, %")
right.legend(ncols=2)
figure.savefig("records.png", dpi=150)
