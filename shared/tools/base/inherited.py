"""What programs of authors see of the worker's environment: the settings of a worker, and of whoever started it, may
hold secrets."""

import os
import re

NAMES = re.compile(
    r"PATH|HOME|USER|LOGNAME|TZ|LANG|LC_\w+|TMPDIR|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|LD_LIBRARY_PATH|KUBECONFIG|DOCKER_HOST|"
    r"KUBERNETES_SERVICE_\w+|(?:https?|no)_proxy",
    re.IGNORECASE,
)


def inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if NAMES.fullmatch(name)}
