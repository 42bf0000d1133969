"""A study from Python: a grid of runs, continued where it stopped, and its table.

    python study.py

The same on the command line: `fedorbit study run my-study.toml`, as often as needed.
"""

from pathlib import Path

from fedorbit import studies

GRID = """
title = "does personalisation help?"
base = "quickstart"

[settings]
run.rounds = 40
run.links = "causal"
network.isl = "assumed"
data.synthetic.samples = 1000
training = { batch = 10, rate = 0.05 }

[common]
method = ["fedavg", "fedorbit", "local"]
seed = [0, 1]
"""

if __name__ == "__main__":  # a study starts processes, which import this file
    Path("my-study.toml").write_text(GRID, encoding="utf-8")
    whole = studies.load_study("my-study.toml")

    # One seed first. Ctrl-C would leave the same: runs that are done, begun or missing.
    studies.run(studies.load_study("my-study.toml", seeds=[0]), "my-study")
    states = [run.state for run in studies.status(whole, "my-study")]
    print(f"{states.count('done')} of {len(states)} runs are done")

    # The same call does what is missing, and nothing twice.
    states = [run.state for run in studies.run(whole, "my-study")]
    print(f"{states.count('done')} of {len(states)} runs are done")

    print(studies.markdown(studies.table(whole, "my-study")))
    studies.write_tables(whole, Path("my-study"), Path("my-study-tables"))  # Markdown, CSV, LaTeX
