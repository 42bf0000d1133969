"""Three methods over ideal, causal and physical links: a table and a figure.

    python compare_links.py

Ideal links are what most papers assume; physical ones are what geometry allows (docs/concepts.md).
Settings are small, so that it takes seconds. For results take more images, rounds and seeds.
"""

from pathlib import Path

from matplotlib.figure import Figure

import fedorbit as fo

methods = ["fedavg", "ditto", "fedorbit"]
small = ["data.synthetic.samples=1000", "run.rounds=40", "training.batch=10", "training.rate=0.05"]
results = {}
for links in ("ideal", "causal", "physical"):
    isl = "line-of-sight" if links == "physical" else "assumed"
    changes = [f"run.method={methods}", f"run.links={links}", f"network.isl={isl}", *small]
    results[links] = fo.run(fo.load_config("quickstart", changes), f"links/{links}")

lines = ["| method | links | accuracy, % | spread | to ground, MB | without a link, MB |"]
lines += ["|---|---|---:|---:|---:|---:|"]
for method in methods:
    for links, result in results.items():
        found = result[method].summary
        moved = found["to_ground_bytes"] / 1e6, found["unlinked_bytes"] / 1e6
        figures = " | ".join(f"{x:.1f}" for x in (found["accuracy"], found["spread"], *moved))
        lines.append(f"| {method} | {links} | {figures} |")
Path("links", "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
print("\n".join(lines))

figure = Figure(figsize=(9, 3), layout="constrained")
for axes, method in zip(figure.subplots(1, 3, sharey=True), methods, strict=True):
    for links, result in results.items():
        records = result[method].records
        axes.plot([r["hours"] for r in records], [r["accuracy"] for r in records], label=links)
    axes.set(title=method, xlabel="hours")
figure.axes[0].set_ylabel("accuracy, %")
figure.axes[0].legend()
figure.savefig("links/accuracy.png", dpi=150)
