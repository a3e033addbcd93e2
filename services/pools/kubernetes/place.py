"""Where the Deployments of pools are, and what this service may do with them."""

from msgspec import Struct

from shared.runtime.service.settings import Settings

MAX_DEPLOYMENT_NAME = 63  # it becomes a label's value, and most of the name of each Pod


class Place(Struct, frozen=True):
    """`release`: of the chart. `create`: Deployments may be made, changed and deleted, from `template`: a file, which
    the chart mounts from a ConfigMap, so that no right to read it is needed."""

    release: str = ""
    create: bool = False
    template: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "Place":
        return cls(settings.kube_release, settings.kube_create, settings.kube_template)

    def deployment(self, pool: str) -> str:
        return f"{self.release}-worker-{pool}"

    def unusable(self, pool: str) -> str:
        """Why no Deployment can be this pool's; empty when one can."""
        if not self.release:
            return "no Deployment can be named: NOETL_KUBE_RELEASE is not set where the pools service runs"
        name = self.deployment(pool)
        if len(name) > MAX_DEPLOYMENT_NAME:
            return f"the name of its Deployment, {name}, is over {MAX_DEPLOYMENT_NAME} characters"
        if name != name.lower() or "_" in name:
            return f"Kubernetes takes no Deployment called {name}: give the pool a name of small letters, digits and -"
        return ""
