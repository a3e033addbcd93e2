from services.worker.service import serve
from shared.runtime.service import strays
from shared.runtime.service.main import run_service
from shared.tools.base import keepers

run_service("worker", strays.ended(serve, lambda: keepers.pids))
