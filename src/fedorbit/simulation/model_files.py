"""Models of runs, to use elsewhere: read from a run's folder, written to files and read back.

A run's final models are in its last checkpoint. `.safetensors` files hold the parameters by
PyTorch's names, and the model's card as JSON in their metadata. `.onnx` files hold the graph with
the standardisation in it, and the card in their metadata.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError, safe_open

from fedorbit.build import build_constellation
from fedorbit.config import Config
from fedorbit.documents import DocumentError, parse_json
from fedorbit.errors import ModelError, RunError, one_line
from fedorbit.extras import install_extra
from fedorbit.files import replacing
from fedorbit.inputs import require_regular
from fedorbit.methods import Method, make_method
from fedorbit.progress import Progress
from fedorbit.simulation.checkpoint import load_newest
from fedorbit.simulation.classifier import Classifier, ModelCard, card_of
from fedorbit.simulation.evaluation import log_priors_of
from fedorbit.simulation.manifest import CONFIG, refuse_links, stored_config
from fedorbit.simulation.records import method_folder, method_id, read_setting
from fedorbit.simulation.running_mean import in_use
from fedorbit.simulation.runs import require_code
from fedorbit.simulation.schema import CARD
from fedorbit.simulation.world import World, build_spec, build_world
from fedorbit.simulation.world_file import stored_plan

KEY = "fedorbit"
"""Key of the model card in a file's metadata."""
SAFETENSORS, ONNX = ".safetensors", ".onnx"


def load_model(
    source: Path | str,
    orbit: int | None = None,
    *,
    satellite: int | None = None,
    method: str | None = None,
    progress: Progress | None = None,
) -> Classifier:
    """Return a model of a run, or one that was exported as `.safetensors`.

    `source` is the run's folder, or the file. It is the model in use in an orbit or on a satellite,
    which count from 0. A method that serves everyone with one model needs neither, and a run of one
    method no name.
    """
    source = Path(source)
    if source.is_dir():
        return _from_run(source, method, orbit, satellite, progress)
    if (orbit, satellite, method) != (None, None, None):
        raise RunError(f"{source} is one model; an orbit, satellite or method is chosen of a run")
    return _from_file(source)


def save_model(model: Classifier, path: Path | str) -> Path:
    """Write a model as `.safetensors` or `.onnx`, by the suffix; return the path."""
    path = Path(path)
    if path.suffix == SAFETENSORS:
        content = safetensors.numpy.save(
            model.named_arrays(), {"format": "pt", KEY: model.card.to_json()}
        )
    elif path.suffix == ONNX:
        content = _as_onnx(model)
    else:
        raise ModelError(f"{path} ends with {path.suffix!r}; allowed are {SAFETENSORS} and {ONNX}")
    with replacing(path) as partial:
        partial.write_bytes(content)
    return path


def _from_run(
    folder: Path,
    name: str | None,
    orbit: int | None,
    satellite: int | None,
    progress: Progress | None,
) -> Classifier:
    refuse_links(folder)
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} holds no run: it has no {CONFIG}")
    config = stored_config(folder)
    name = _chosen(folder, config.run.method, name)
    require_code(folder, [name], config.model.name)
    method = make_method(name, config.methods.get(name, {}))
    target = method_folder(folder, name)
    run_id = method_id(target)
    found = None if run_id is None else load_newest(target, run_id)
    if found is None:
        raise RunError(
            f"{target} has no checkpoint, and so no model: copies by `study export` and `--reuse` "
            "have none; take the model from the folder where the run was made, or run it again"
        )
    models = in_use(found.under_way, method.models(found.state))
    row, serves = _row(config, name, method, len(models), orbit, satellite)
    card = _card(folder, config, progress, method=name, serves=serves, rounds=found.rounds_done)
    if config.training.calibrate:
        world = build_world(config, progress, stored_plan(folder))
        priors = log_priors_of(world, method.serves)
        used_in = row if len(models) > 1 else _orbit(world, orbit, satellite)
        if used_in is not None:  # one model for everyone, and no orbit: no prior
            card = replace(card, log_prior=tuple(priors[used_in].tolist()))
    spec = build_spec(config, card.image_shape, len(card.classes))
    return Classifier(card, spec).load_vector(models[row])


def _orbit(world: World, orbit: int | None, satellite: int | None) -> int | None:
    """Return the orbit of a model that is in use everywhere; None if it is not known."""
    orbit_of_satellite = world.partition.orbit_of_satellite
    if satellite is not None:
        return int(orbit_of_satellite[satellite])
    return 0 if orbit is None and orbit_of_satellite.max() == 0 else orbit


def _chosen(folder: Path, methods: Sequence[str], name: str | None) -> str:
    if name is None and len(methods) == 1:
        return methods[0]
    if name is None or name not in methods:
        asked = "several methods" if name is None else f"no method {name!r}"
        raise RunError(f"{folder} has {asked}; choose one with --method: {', '.join(methods)}")
    return name


def _row(
    config: Config,
    name: str,
    method: Method,
    rows: int,
    orbit: int | None,
    satellite: int | None,
) -> tuple[int, str]:
    """Return which of a method's models is in use in an orbit or on a satellite, and where it is.

    A model for everyone is in use in every orbit, and one of an orbit on all its satellites.
    """
    orbit_of_satellite = build_constellation(config).orbit_of_satellite
    orbits, satellites = int(orbit_of_satellite[-1]) + 1, len(orbit_of_satellite)
    if orbit is not None and satellite is not None:
        raise RunError(f"orbit {orbit} and satellite {satellite} are both chosen; leave one out")
    for what, number, count in (("orbit", orbit, orbits), ("satellite", satellite, satellites)):
        if number is not None and not 0 <= number < count:
            raise RunError(f"{what} must be from 0 to {count - 1} in this run, got {number}")
    if rows == 1:
        return 0, "everyone"
    if method.serves == "satellite":
        if satellite is None:
            own = np.flatnonzero(orbit_of_satellite == orbit)
            those = f"; orbit {orbit} has {own[0]} to {own[-1]}" if len(own) else ""
            raise RunError(
                f"{name} has a model for each of {satellites} satellites; choose one with "
                f"--satellite, from 0 to {satellites - 1}{those}"
            )
        return satellite, f"satellite {satellite}"
    if satellite is not None:
        orbit = int(orbit_of_satellite[satellite])
    if orbit is None:
        raise RunError(
            f"{name} has a model for each of {orbits} orbits; choose one with --orbit, from 0 to "
            f"{orbits - 1}"
        )
    return orbit, f"orbit {orbit}"


def _card(
    folder: Path,
    config: Config,
    progress: Progress | None,
    *,
    method: str,
    serves: str,
    rounds: int,
) -> ModelCard:
    """Describe a model from the run's world file; runs before it had the standardisation anew."""
    setting = read_setting(folder)
    if setting is None or "input" not in setting:
        world = build_world(config, progress, stored_plan(folder))
        return card_of(world, method=method, serves=serves, rounds=rounds)
    given: dict[str, Any] = {"model": config.model.name, "layer": config.model.classifier}
    given["options"] = dict(config.model.options)
    of_world = {key: setting[key] for key in ("classes", "image_shape")}
    made = {"method": method, "serves": serves, "rounds": rounds}
    return ModelCard.from_document({**given, **of_world, **setting["input"], **made})


def _from_file(path: Path) -> Classifier:
    if path.suffix == ONNX:
        raise ModelError(
            f"{path} is written for other programs, such as onnxruntime; give the run's folder, or "
            f"a {SAFETENSORS} file"
        )
    try:
        require_regular(path.stat(), path)
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            if KEY not in metadata:
                raise DocumentError("it has no card in its metadata; `fedorbit export` writes one")
            card = ModelCard.from_document(parse_json(metadata[KEY].encode(), CARD))
            model = Classifier(card, card.spec())
            expected = {name: array.shape for name, array in model.named_arrays().items()}
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            if found != expected:
                raise DocumentError(f"its parameters are not those of {card.model}")
            arrays = {name: file.get_tensor(name) for name in expected}
    except FileNotFoundError:
        raise RunError(f"{path} is neither the folder of a run nor a file") from None
    except (DocumentError, SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} cannot be used as a model ({one_line(error)}); export it again with "
            f"`fedorbit export RUN --to MODEL{SAFETENSORS}`"
        ) from None
    return model.load_arrays(arrays)


def _as_onnx(model: Classifier) -> bytes:
    """Return the graph, with any number of images as its input."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"ONNX files need packages that are not installed ({error}); "
            f"{install_extra('onnx')}, or write {SAFETENSORS}"
        ) from None
    shape, dtype = model.card.image_shape, getattr(torch, model.card.dtype)
    example = torch.zeros((2, *shape), dtype=dtype)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of packages that no model here needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own code
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            verbose=False,
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
        )
    assert program is not None, "the exporter returns a program where it writes no file"
    program.model.metadata_props[KEY] = model.card.to_json()
    content: bytes = program.model_proto.SerializeToString()
    return content
