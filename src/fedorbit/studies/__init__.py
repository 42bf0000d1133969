"""Studies: grids of runs, done several at a time, and their tables.

    from fedorbit import studies

    study = studies.load_study("ablation", quick=True)
    studies.run(study)
    print(studies.markdown(studies.table(study)))

A study's folder, `studies/NAME` by default:

    study.toml              the study as resolved, loadable again; every `[[cells]]` entry names the
                            run's `folder`, its method, dataset, partition, links, seed, variant if
                            it has one, `settings`, the further axes, and `published` accuracy and
                            spread if there are. Cells whose settings agree share a folder.
                            `is_quick` is true for a quick stand-in of the study.
    RUN/                    one run of one method, as `fedorbit run` leaves it: config.toml,
                            METHOD/records.jsonl, METHOD/summary.json once it is done, checkpoints
    .study/RUN.toml         the configuration a run is to have
    .study/RUN.lock         locked while some process does the run
    .study/RUN.failure.json why the run failed the last time, and where
    .study/log.txt          warnings, and what methods print
    .study/RUN.log.txt      the same for a run on a cluster
"""

from fedorbit.studies.export import export, take_over, write_tables
from fedorbit.studies.formats import as_csv, as_json, latex, markdown
from fedorbit.studies.ray.executor import OnRay
from fedorbit.studies.runner import StudyProgress, run, status
from fedorbit.studies.study import Study, load_study, shipped_names, study_text, write_study
from fedorbit.studies.tables import StudyTable, table

__all__ = [
    "OnRay",
    "Study",
    "StudyProgress",
    "StudyTable",
    "as_csv",
    "as_json",
    "export",
    "latex",
    "load_study",
    "markdown",
    "run",
    "shipped_names",
    "status",
    "study_text",
    "table",
    "take_over",
    "write_study",
    "write_tables",
]
