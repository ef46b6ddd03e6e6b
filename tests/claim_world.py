"""A cluster on a virtual clock in which members of pod groups have claims for devices."""

from collections.abc import Mapping
from typing import Any

from device_building import a_claim, a_class, a_device, a_slice, claiming
from gangs import GangWorld, a_member
from mooring.model.devices import ResourceClaim


class ClaimWorld(GangWorld):
    """Two nodes, and devices on the first; all claims are there from the start."""

    def __init__(
        self, devices: int = 1, *claims: ResourceClaim, cpu: str = "32", gates: Mapping[str, bool] | None = None
    ) -> None:
        super().__init__(gates)
        self.driver.create(a_class())
        for claim in claims or (a_claim("shared"),):
            self.driver.create(claim)
        self.node("a", cpu)
        self.node("b", cpu)
        self.driver.create(a_slice("a", *(a_device(f"dev-{i}") for i in range(devices)), node="a"))

    def claimants(self, *names: str, claims: tuple[str, ...] = ("shared",), **more: Any) -> None:
        for name in names:
            self.driver.create(claiming(a_member(name, **more), *claims))
        self.settle()

    def claim(self, name: str = "shared") -> ResourceClaim:
        claim = self.driver.objects["ResourceClaim", f"default/{name}"]
        assert isinstance(claim, ResourceClaim)
        return claim

    def users(self, name: str = "shared") -> set[str]:
        return {each.name for each in self.claim(name).status.reserved_for or ()}
