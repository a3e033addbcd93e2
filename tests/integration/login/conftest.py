"""Certificates of one issuer, for all tests of this folder."""

import pytest

from shared.bus import jetstream
from shared.bus.login.files import LoginFiles
from tests.support.servers.certificates import Issuer


class Party:
    """An issuer, with a certificate for a server and one for a client."""

    def __init__(self, issuer: Issuer) -> None:
        self.ca = str(issuer.ca)
        self.server, self.client = ([str(file) for file in issuer.issue(name)] for name in ("server", "client"))

    @property
    def tls(self) -> dict[str, object]:
        """For a server's configuration."""
        return {"cert_file": self.server[0], "key_file": self.server[1], "ca_file": self.ca}

    @property
    def trusted(self) -> LoginFiles:
        return LoginFiles(ca=self.ca)

    @property
    def known(self) -> LoginFiles:
        return LoginFiles(ca=self.ca, cert=self.client[0], key=self.client[1])


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Party:
    return Party(Issuer(tmp_path_factory.mktemp("ours")))


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Party:
    return Party(Issuer(tmp_path_factory.mktemp("theirs")))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal counts at once."""
    monkeypatch.setattr(jetstream, "REFUSED_S", 0.0)
