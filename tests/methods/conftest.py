import pytest

from fedorbit.user_code import allow_code
from tests.methods import models


@pytest.fixture(autouse=True)
def own_models() -> None:
    """Allow the models of these tests to be imported."""
    allow_code(models.__name__)
