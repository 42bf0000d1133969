import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.lenet import LeNet
from fedorbit.learning.models import model_spec
from fedorbit.learning.parameters import layout_of
from fedorbit.user_code import allow_code


def test_lenet_has_the_papers_layers() -> None:
    layout = layout_of(LeNet(32, 32, 3, 10), "fc2", 10)
    shapes = {p.name: p.shape for p in layout.parameters}
    assert shapes == {
        "conv1.weight": (6, 3, 5, 5),
        "conv1.bias": (6,),
        "conv2.weight": (16, 6, 5, 5),
        "conv2.bias": (16,),
        "fc1.weight": (120, 16 * 5 * 5),
        "fc1.bias": (120,),
        "fc2.weight": (84, 120),
        "fc2.bias": (84,),
        "fc3.weight": (10, 84),
        "fc3.bias": (10,),
    }
    assert layout.size == 62006  # the classic LeNet-5 with three input channels
    assert layout.features == slice(0, 50992)
    assert layout.classifier == slice(50992, 62006)


@pytest.mark.parametrize("shape", [(16, 16, 1), (17, 23, 2), (64, 64, 3), (32, 32, 10)])
def test_any_size_works(shape: tuple[int, int, int]) -> None:
    height, width, channels = shape
    logits = LeNet(height, width, channels, 7)(torch.zeros(3, channels, height, width))
    assert logits.shape == (3, 7)


def test_pool_before_relu_is_relu_before_pool() -> None:
    torch.manual_seed(0)
    model = LeNet(20, 24, 2, 5)
    x = torch.randn(4, 2, 20, 24)
    y = functional.max_pool2d(torch.relu(model.conv1(x)), 2)
    y = functional.max_pool2d(torch.relu(model.conv2(y)), 2)
    y = y.permute(0, 2, 3, 1).flatten(1)
    y = model.fc3(torch.relu(model.fc2(torch.relu(model.fc1(y)))))
    torch.testing.assert_close(model(x), y)


def test_class_rows_point_at_fc3() -> None:
    model = LeNet(16, 16, 1, 4)
    layout = layout_of(model, "fc2", 4)
    vector = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
    for c in range(4):
        expected = [*model.fc3.weight[c].tolist(), model.fc3.bias[c].item()]
        assert vector[layout.class_rows[c]].tolist() == expected
    fc2 = np.concatenate(
        [model.fc2.weight.detach().numpy().ravel(), model.fc2.bias.detach().numpy()]
    )
    np.testing.assert_array_equal(vector[layout.shared_classifier], fc2)


def test_initial_parameters_depend_on_the_seed_alone_and_leave_torch_alone() -> None:
    spec = model_spec("lenet", None, (16, 16, 3), 10)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = spec.initial_vector(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    np.testing.assert_array_equal(spec.initial_vector(1), first)
    assert not np.array_equal(spec.initial_vector(2), first)
    # PyTorch's default: uniform within 1 / sqrt(fan in).
    conv1 = first[: 6 * 3 * 25]
    bound = 1 / np.sqrt(3 * 25)
    assert np.abs(conv1).max() <= bound
    assert np.abs(conv1).max() > 0.95 * bound


class TwoLayers(nn.Module):
    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Linear(height * width * channels, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.body(x.flatten(1))))


class WithoutBias(TwoLayers):
    def __init__(self, *shape: int) -> None:
        super().__init__(*shape)
        self.head = nn.Linear(8, shape[-1], bias=False)


def not_a_model(*shape: int) -> str:
    return "a model"


def test_a_model_of_ones_own() -> None:
    allow_code(__name__)
    spec = model_spec(f"{__name__}:TwoLayers", "head", (4, 4, 2), 3)
    assert spec.layout.features == slice(0, 32 * 8 + 8)
    assert spec.layout.class_rows.shape == (3, 9)
    assert spec.initial_vector(0).shape == (32 * 8 + 8 + 8 * 3 + 3,)


@pytest.mark.parametrize(
    ("name", "classifier", "message"),
    [
        (f"{__name__}:TwoLayers", None, "needs model.classifier"),
        (f"{__name__}:TwoLayers", "tail", "must name the first classifier layer"),
        (f"{__name__}:TwoLayers", "body", "must name the first classifier layer"),
        (f"{__name__}:WithoutBias", "head", "must be linear with bias"),
        (f"{__name__}:Nothing", "head", "has no 'Nothing'"),
        ("no_such_module_at_all:Thing", "head", "cannot import no_such_module_at_all"),
        ("resnot", None, "or package.module:name, got 'resnot'; did you mean 'resnet'?"),
        ("builtins:dict", "head", "cannot be built"),
        (f"{__name__}:not_a_model", "head", "must return a torch.nn.Module, got str"),
    ],
)
def test_models_that_cannot_work(name: str, classifier: str | None, message: str) -> None:
    allow_code(name.partition(":")[0])
    with pytest.raises(ModelError, match=message):
        model_spec(name, classifier, (4, 4, 2), 3)


def test_lenet_refuses_images_too_small_for_it() -> None:
    with pytest.raises(ModelError, match="at least 16 x 16 pixels, got 12 x 20"):
        model_spec("lenet", None, (12, 20, 3), 3)
