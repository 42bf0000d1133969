"""All shipped methods, in their variants, stand the conformance suite."""

from examples.fedsat_like import FedSatLike
from examples.trimmed_mean import TrimmedMean

from fedorbit.methods import METHODS, make_method
from fedorbit.methods.alanine import Alanine
from fedorbit.methods.apfl import APFL
from fedorbit.methods.centralised import Centralised
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedleo import FedLEO
from fedorbit.methods.fednova import FedNova
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.fedprox import FedProx
from fedorbit.methods.fedrep import FedRep
from fedorbit.methods.local import Local
from fedorbit.methods.per_fedavg import PerFedAvg
from fedorbit.methods.pfedme import PFedMe
from fedorbit.methods.scaffold import Scaffold
from fedorbit.testing import MethodConformance
from tests.methods.relays import RelaysParts


class TestLocal(MethodConformance):
    method = Local()
    uses_links = False


class TestLocalAlways(MethodConformance):
    method = Local(effort="always")
    uses_links = False


class TestCentralised(MethodConformance):
    method = Centralised()
    uses_links = False


class TestFedAvg(MethodConformance):
    method = FedAvg()


class TestFedAvgWithEffort(MethodConformance):
    method = FedAvg(effort="always")


class TestFedProx(MethodConformance):
    method = FedProx(mu=0.5)


class TestScaffold(MethodConformance):
    method = Scaffold()


class TestScaffoldOfOrbits(MethodConformance):
    method = Scaffold(clients="orbit", unheard="zero", server_rate=0.5)


class TestScaffoldByTorch(MethodConformance):
    method = Scaffold()
    backend = "torch"


class TestFedNova(MethodConformance):
    method = FedNova()


class TestFedNovaWithEffort(MethodConformance):
    method = FedNova(mu=0.5, effort="always")


class TestPFedMe(MethodConformance):
    method = PFedMe(inner_steps=2)


class TestPFedMeByTorch(MethodConformance):
    method = PFedMe(inner_steps=2, beta=0.5)
    backend = "torch"


class TestPerFedAvg(MethodConformance):
    method = PerFedAvg()


class TestPerFedAvgHessianFree(MethodConformance):
    method = PerFedAvg(variant="hf", adapt_steps=2)


class TestPerFedAvgByTorch(MethodConformance):
    method = PerFedAvg(variant="hf", adapt_epochs=1)
    backend = "torch"


class TestFedRep(MethodConformance):
    method = FedRep()


class TestFedRepByTorch(MethodConformance):
    method = FedRep(head="classifier", effort="visible")
    backend = "torch"


class TestAPFL(MethodConformance):
    method = APFL()


class TestDitto(MethodConformance):
    method = Ditto()


class TestDittoWithEffort(MethodConformance):
    method = make_method("ditto", {"effort": "visible"})


class TestFedOrbit(MethodConformance):
    method = FedOrbit()


class TestFedOrbitLiteral(MethodConformance):
    method = FedOrbit(blend="literal", similarity_smoothing=0.5)


class TestFedOrbitWithoutMechanisms(MethodConformance):
    method = FedOrbit(
        continuous=False,
        class_rows=False,
        magnitude_features=False,
        quality_weights=False,
        kappa=0.0,
        catch_up=0.0,
        beta=1.0,
    )


class TestFedOrbitByTorch(MethodConformance):
    method = FedOrbit()
    backend = "torch"


class TestFedLEO(MethodConformance):
    method = FedLEO()


class TestFedLEOOfOrbits(MethodConformance):
    """Nothing leaves an orbit."""

    method = FedLEO(scope="orbit")
    uses_links = False


class TestAlanine(MethodConformance):
    method = Alanine(warm_up=1, prune_every=2, prune_until=4)


class TestAlanineOfSatellites(MethodConformance):
    method = Alanine(unit="satellite", personal=False, peers=2, warm_up=2, prune_every=1)


class TestAPFLByTorch(MethodConformance):
    method = APFL()
    backend = "torch"


class TestTheExample(MethodConformance):
    """The documented method of one's own."""

    method = TrimmedMean(trim=1)


class TestTheAsynchronousExample(MethodConformance):
    """Mail and jobs are under way between its rounds."""

    method = FedSatLike()


class TestRelaysParts(MethodConformance):
    """Parts are under way between its rounds, over several links and through a channel."""

    method = RelaysParts()


def test_no_method_is_forgotten() -> None:
    tested = {type(c.method) for c in MethodConformance.__subclasses__()}
    assert set(METHODS.values()) <= tested
