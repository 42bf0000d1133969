"""The catalogue of methods: every method has its equations, and they are set as such."""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import pytest
from site_equations import block, escaped, printed

import fedorbit
from fedorbit.methods import METHODS

PACKAGE = Path(fedorbit.__file__).parent
MODULES = sorted({Path(str(sys.modules[m.__module__].__file__)) for m in METHODS.values()})
NAMES = "fleet/superposition methods/offloading methods/sinks methods/widths"
RULES = "sgd step coupled moreau maml"
BESIDE = [PACKAGE / f"{name}.py" for name in NAMES.split()]
BESIDE += [PACKAGE / f"learning/rules/{rule}.py" for rule in RULES.split()]


def numbers_in(text: str) -> list[int]:
    """Return the numbers of equations that are cited: (3), (1, 2), (1 to 4)."""
    cited = re.findall(r"(?<!\w)\((\d)(?:(?:,| to| and) (\d))?\)", text)
    return [int(number) for pair in cited for number in pair if number]


@pytest.mark.parametrize("module", [*MODULES, *BESIDE], ids=lambda module: module.stem)
def test_equations_are_numbered_and_citations_name_one(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree) or ""
    numbers = [int(n) for n in re.findall(r"^    \((\d)\)  ", docstring, re.MULTILINE)]
    assert numbers and numbers == list(range(1, len(numbers) + 1))
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    documented = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    texts = [docstring, *comments, *(ast.get_docstring(node) or "" for node in documented)]
    # Equations of FedAvg are cited by name.
    own = [re.sub(r"(FedAvg|FedOrbit)('s|,) (\(\d\)( and )?)+", "", text) for text in texts]
    assert set(numbers_in("\n".join(own))) <= set(numbers)


def test_no_page_or_method_cites_labels_of_the_papers_source() -> None:
    pages = (PACKAGE.parents[1] / "docs").rglob("*.md")
    for path in [*MODULES, *BESIDE, PACKAGE / "methods" / "steps.py", *pages]:
        assert not re.search(r"`?\beq:\w", path.read_text(encoding="utf-8")), path


def test_symbols_are_set() -> None:
    assert printed("w_l^{f,p} <- (1 - beta) w_l^f") == (
        "w<sub>l</sub><sup>f,p</sup> ← (1 - β) w<sub>l</sub><sup>f</sup>"
    )
    assert printed("sum_l a_lc rho^{sigma_l}") == (
        "Σ<sub>l</sub> a<sub>lc</sub> ρ<sup>σ<sub>l</sub></sup>"
    )
    assert printed("eta <grad f(w; D), v - w>, sqrt(N_0)") == (
        "η ⟨∇f(w; D), v - w⟩, √(N<sub>0</sub>)"
    )


def test_words_and_code_are_left_alone() -> None:
    text = "a *unit*, **ours**, `tau_max <- 1`, the sum of both, group_gap, a gradient f"
    assert printed(text) == text.replace("group_gap", "group\\_gap")
    assert escaped("2 * 3 | a_b") == "2 \\* 3 \\| a\\_b"


def test_columns_stay_and_separators_do_not_grow() -> None:
    rows = [
        "    (1)  in view, E_base epochs:  eta_l",
        "    (2)  out of view:             eta,  tau_l",
    ]
    assert block("\n".join(rows)) == (
        '<pre class="equations">'
        "(1)  in view, E<sub>base</sub> epochs:   η<sub>l</sub>\n"
        "(2)  out of view:             η,  τ<sub>l</sub></pre>"
    )


def test_tables_of_symbols_have_rows_that_continue() -> None:
    rows = [
        "    symbol   here",
        "    tau_k    steps,",
        "             of a job",
        "    |w|      norm",
    ]
    assert block("\n".join(rows)).splitlines() == [
        "| symbol | here |",
        "| --- | --- |",
        "| τ<sub>k</sub> | steps, of a job |",
        "| \\|w\\| | norm |",
    ]
