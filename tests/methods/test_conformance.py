"""All shipped methods, in their variants, stand the conformance suite."""

from examples.distillation import FedDistil
from examples.fedsat_like import FedSatLike
from examples.moon import Moon
from examples.trimmed_mean import TrimmedMean

from fedorbit.methods import METHODS, make_method
from fedorbit.methods.airfl import AirFL
from fedorbit.methods.alanine import Alanine
from fedorbit.methods.apfl import APFL
from fedorbit.methods.asyncfleo import AsyncFLEO
from fedorbit.methods.centralised import Centralised
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedbn import FedBN
from fedorbit.methods.fedhap import FedHAP
from fedorbit.methods.fedleo import FedLEO
from fedorbit.methods.fedleo_sink import FedLEOSink
from fedorbit.methods.fednova import FedNova
from fedorbit.methods.fedopt import FedAdam, FedAvgM, FedYogi
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.fedprox import FedProx
from fedorbit.methods.fedrep import FedRep
from fedorbit.methods.fedsat import FedAsync, FedSat
from fedorbit.methods.fedsn import FedSN
from fedorbit.methods.fedspace import FedSpace
from fedorbit.methods.local import Local
from fedorbit.methods.per_fedavg import PerFedAvg
from fedorbit.methods.pfedme import PFedMe
from fedorbit.methods.rendezvous import Rendezvous
from fedorbit.methods.scaffold import Scaffold
from fedorbit.testing import MethodConformance
from tests.methods.models import TINY_NORM
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


class TestFedAvgM(MethodConformance):
    method = FedAvgM(server_rate=0.5)


class TestFedAdam(MethodConformance):
    method = FedAdam()


class TestFedYogi(MethodConformance):
    method = FedYogi(effort="always")


class TestFedBN(MethodConformance):
    method = FedBN()
    model = TINY_NORM


class TestFedBNOfStatistics(MethodConformance):
    method = FedBN(keeps="statistics", effort="always")
    model = TINY_NORM


class TestFedOrbitWithStatistics(MethodConformance):
    """A model with BatchNorm and dropout."""

    method = FedOrbit()
    model = TINY_NORM


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


class TestFedSN(MethodConformance):
    method = FedSN(capability=[0.5, 1.0, 0.25])


class TestFedSNWhole(MethodConformance):
    method = FedSN(quota=0.0)


class TestFedSNOwn(MethodConformance):
    method = FedSN(capability=[0.75, 0.25], window="static", inference="own", patience_s=300.0)
    backend = "torch"


class TestAirFL(MethodConformance):
    method = AirFL()


class TestAirFLFading(MethodConformance):
    method = AirFL(snr_db=0.0, fading=True, mu=0.01, alpha=2.0, server_rate=0.5)
    backend = "torch"


class TestFedLEO(MethodConformance):
    method = FedLEO()


class TestFedLEOOfOrbits(MethodConformance):
    """Nothing leaves an orbit."""

    method = FedLEO(scope="orbit")
    uses_links = False


class TestAlanine(MethodConformance):
    method = Alanine(warm_up=1, prune_every=2, prune_until=4, relays="any")


class TestAlanineOfSatellites(MethodConformance):
    method = Alanine(
        unit="satellite", personal=False, peers=2, warm_up=2, prune_every=1, relays="any"
    )
    sends_by_routes_alone = True


class TestRendezvous(MethodConformance):
    method = Rendezvous(epochs=1, every=1)
    uses_ground = False
    joins_in = 3
    sends_by_routes_alone = True


class TestAPFLByTorch(MethodConformance):
    method = APFL()
    backend = "torch"


class TestFedSat(MethodConformance):
    method = FedSat()


class TestFedSatScheduled(MethodConformance):
    method = FedSat(update="delta", schedule=True, pull=0.5)


class TestFedAsync(MethodConformance):
    method = FedAsync(period_s=300.0)


class TestFedSpace(MethodConformance):
    method = FedSpace(horizon=4, least=1, most=4, candidates=20)


class TestFedSpaceWithRidge(MethodConformance):
    method = FedSpace(
        horizon=3, least=2, most=3, candidates=5, utility="ridge", pairs=6, versions=2
    )


class TestFedHAP(MethodConformance):
    method = FedHAP()


class TestFedHAPWithADeadline(MethodConformance):
    method = FedHAP(wait=2)


class TestAsyncFLEO(MethodConformance):
    method = AsyncFLEO()


class TestAsyncFLEOByTheClock(MethodConformance):
    method = AsyncFLEO(epoch_s=600.0, quota=1.0, group_gap=0.0)


class TestFedLEOSink(MethodConformance):
    method = FedLEOSink()


class TestFedLEOSinkWithADeadline(MethodConformance):
    method = FedLEOSink(wait=2, sink="longest")


class TestTheExample(MethodConformance):
    """The documented method of one's own."""

    method = TrimmedMean(trim=1)


class TestTheExampleOfARule(MethodConformance):
    """The documented local rule of one's own, with a model that has statistics and dropout."""

    method = Moon()
    model = TINY_NORM


class TestTheExampleOfDistillation(MethodConformance):
    method = FedDistil()
    model = TINY_NORM


class TestTheAsynchronousExample(MethodConformance):
    """Mail and jobs are under way between its rounds."""

    method = FedSatLike()


class TestRelaysParts(MethodConformance):
    """Parts are under way between its rounds, over several links and through a channel."""

    method = RelaysParts()


def test_no_method_is_forgotten() -> None:
    tested = {type(c.method) for c in MethodConformance.__subclasses__()}
    assert set(METHODS.values()) <= tested
